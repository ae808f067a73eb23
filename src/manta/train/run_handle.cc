#include "manta/train/run_handle.h"

#include <future>
#include <optional>
#include <thread>

#include "manta/base/batch_work_internal.h"
#include "manta/base/interrupts_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/train/active_runs_internal.h"
#include "manta/train/event_queue_internal.h"
#include "manta/train/training_internal.h"

namespace manta {

struct RunHandle::State {
  train::Training training;
  train::EventQueue events;
  // From `start` to the end of the run, however long the handle is kept.
  std::optional<train::ActiveRun> active;
  std::optional<InterruptListener> interrupts;
  std::shared_future<Result> result;
  std::thread thread;

  Result run() {
    struct AtEnd {
      State& state;
      ~AtEnd() {
        state.interrupts.reset();
        state.active.reset();
      }
    } at_end{*this};
    return train::run_training(training, events);
  }
};

RunHandle::RunHandle(train::Training training) : state_(std::make_unique<State>()) {
  train::check_start(training);
  state_->training = std::move(training);
  state_->active.emplace();
  state_->interrupts.emplace([state = state_.get()] { state->events.push(train::Interrupted{}); });
  std::packaged_task<Result()> run([state = state_.get()] {
    become_batch_work();
    return state->run();
  });
  state_->result = run.get_future().share();
  state_->thread = start_thread("the thread of a training run", std::move(run));
}

RunHandle::RunHandle(RunHandle&&) noexcept = default;

RunHandle& RunHandle::operator=(RunHandle&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

RunHandle::~RunHandle() {
  if (!state_) return;
  stop();
  state_->thread.join();
}

void RunHandle::stop() { state_->events.push(train::Interrupted{}); }

bool RunHandle::done() const {
  return state_->result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

Result RunHandle::result() const {
  if (std::this_thread::get_id() == state_->thread.get_id()) {
    throw Error(ErrorKind::kInvalidArgument,
                "RunHandle::result was called in a callback of the run itself, which cannot end "
                "before the callback has returned");
  }
  return state_->result.get();
}

namespace train {

Result run_training(const Training& training) { return RunHandle(training).result(); }

}  // namespace train
}  // namespace manta
