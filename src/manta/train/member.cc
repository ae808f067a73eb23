#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "manta/base/error_internal.h"
#include "manta/core/call_function_internal.h"
#include "manta/train/controller_internal.h"
#include "manta/train/member_internal.h"
#include "manta/train/session_internal.h"

namespace manta::train {
namespace {

// How long the others may take to be there: they start together with this one.
constexpr std::chrono::seconds kBeginDeadline{60};

void run_reader(BeginReading begin) {
  std::vector<UniqueFd> workers;
  for (auto& fd : begin.workers) workers.push_back(fd.take());
  data::FeedOptions options;
  options.threads = begin.threads;
  // A little less than the workers' own: they should hear who is missing before they give up.
  options.timeout = std::chrono::milliseconds(begin.timeout_ms * 4 / 5);
  std::map<std::string, std::shared_ptr<const data::Plan>> plans;
  for (const auto& [name, plan] : begin.plans) plans[name] = plan.plan();
  data::serve_feed(plans, std::move(workers), options);
}

void run_loop(const BeginTraining& begin) {
  if (begin.prepare_worker) call_function(*begin.prepare_worker, Value());
  call_function(begin.loop, begin.loop_takes_config ? to_value(begin.config) : Value());
}

// Each step allocates what the one before has freed. By default glibc returns large blocks to the
// system, which clears every page again: a third of the time of a step whose tensors have some
// megabytes. Who sets one of these variables knows better.
void keep_freed_memory() {
#if defined(__GLIBC__)
  for (const char* name : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}) {
    if (std::getenv(name)) return;
  }
  ::mallopt(M_MMAP_THRESHOLD, 256 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

void run_worker_loop(const std::shared_ptr<Channel>& channel, BeginTraining begin) {
  auto send = [&](const auto& message) {
    channel->send([&](OutBuffer& out) { encode_message<FromMember>(out, message); });
  };
  keep_freed_memory();
  Session session(channel, std::move(begin));
  try {
    run_loop(session.begin());
    session.finish();
    std::cout.flush();
    std::fflush(nullptr);  // before the driver may end this process
    send(SendDone{session.watch().collectives(), session.watch().passes()});
  } catch (const std::exception& error) {
    if (session.was_ended()) return;
    auto* ours = dynamic_cast<const Error*>(&error);
    std::string message =
        (ours ? "" : demangle(typeid(error).name()) + ": ") + session.error_text(error);
    bool consequence = session.is_consequence(error);
    // At once: the driver may end this process as soon as it has heard of another's failure.
    std::cerr << str(consequence ? "this rank stops: " : "the training loop failed: ", message,
                     "\n");
    std::fflush(nullptr);
    if (!consequence) session.settle();
    send(SendFailure{ours ? ours->kind() : ErrorKind::kUserCode, message, consequence,
                     consequence ? session.thrown_from() : std::nullopt});
  } catch (...) {
    const std::string message = "it threw something that is no std::exception";
    std::cerr << "the training loop failed: " + message + "\n";
    session.settle();
    send(SendFailure{ErrorKind::kUserCode, message, false});
  }
}

}  // namespace

void Member::run(const std::string& address, const std::string& token, int attempt, int rank) {
  auto channel = std::make_shared<Channel>(connect_unix(address));
  channel->send([&](OutBuffer& out) {
    encode_message<FromMember>(out, Join{token, attempt, rank});
  });
  Frame frame;
  if (!channel->receive(&frame, Deadline::after(kBeginDeadline)))
    return;  // the group is being ended
  auto message = decode_message<ToMember>(frame);
  if (auto* reading = std::get_if<BeginReading>(&message)) {
    run_reader(std::move(*reading));
  } else if (auto* training = std::get_if<BeginTraining>(&message)) {
    run_worker_loop(channel, std::move(*training));
  } else {
    throw Error(ErrorKind::kCorrupt, "the driver's first message does not say what to do");
  }
}

}  // namespace manta::train
