// An experiment that tests kill: however often that happens, each of its trials must be completed
// once.
//
//   tune_job <storage> function|trainer <log>
//
// <storage> is a folder or an address.
// Goes on with the experiment if there is one. Every trial appends a line to <log> at each report
// ("report <trial> <n>"), with one write, so that lines of several processes do not mix.

#include <fcntl.h>
#include <manta/manta.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <thread>

#include "manta/io/remote_files_internal.h"
#include "manta/train/training_internal.h"
#include "usage.h"

using namespace manta;

namespace {

constexpr int kReports = 4;
constexpr int kTrials = 12;

void log_line(const std::string& path, const std::string& line) {
  int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  (void)!::write(fd, (line + "\n").data(), line.size() + 1);
  ::close(fd);
}

class State final : public CheckpointSource {
 public:
  explicit State(int n) : n_(n) {}
  void stage() override {}
  void write(CheckpointFolder& folder) override { folder.write("n", std::to_string(n_)); }

 private:
  int n_;
};

// The same as a function and as the loop of a trainer. Half of the trials have checkpoints.
void count_up(const Json& config) {
  auto context = tune::get_context();
  Checkpoint from = tune::get_checkpoint();
  int first = 0;
  if (from) std::ifstream(from.file("n")) >> first, ++first;
  bool keeps = config.at("x").get<double>() < 0.5;
  for (int n = first; n < kReports; ++n) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the work
    log_line(config.at("log"), "report " + context.trial_name + " " + std::to_string(n));
    Json metrics = {{"n", n}, {"loss", config.at("x").get<double>() / (n + 1)}};
    tune::report(metrics, keeps ? std::make_shared<State>(n) : nullptr);
  }
}

class LoopTrainer final : public BaseTrainer {
 public:
  struct Space {
    tune::Space config = {};
    template <class Visit>
    void visit(Visit&& visit) {
      visit("config", config);
    }
  };

  explicit LoopTrainer(TrainLoop loop) {
    training_.trainer = "LoopTrainer";
    training_.config = Json::object();
    training_.loop = loop.function();
  }
  LoopTrainer apply(const Space& values, const RunConfig& run) const {
    LoopTrainer other = *this;
    other.training_.run = run;
    other.training_.config = tune::override_config(training_.config, values.config);
    return other;
  }
  train::Training training() const override { return training_; }

 private:
  train::Training training_;
};

template <class T>
ResultGrid run(const T& trainable, typename tune::SpaceOf<T>::type space,
               const std::string& storage) {
  auto address = remote_address(storage);
  std::string path = address ? address->child("e").text() : storage + "/e";
  if (Tuner::can_restore(path)) return Tuner::restore(path, trainable).fit();
  return Tuner(trainable, {.param_space = std::move(space),
                           .tune_config = {.metric = "loss",
                                           .mode = "min",
                                           .num_samples = kTrials,
                                           .scheduler = tune::ASHAScheduler{.max_t = kReports,
                                                                            .reduction_factor = 2},
                                           .seed = 5},
                           .run_config = {.name = "e", .storage_path = storage, .verbose = false}})
      .fit();
}

}  // namespace

int main(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = 3}});
  if (auto done = usage(argc, argv, "tune_job <storage> function|trainer <log>", 3, 3))
    return *done;
  std::string storage = argv[1], kind = argv[2], log = argv[3];
  tune::Space space = {{"x", tune::uniform(0, 1)}, {"log", log}};
  try {
    ResultGrid results = kind == "function"
                             ? run(count_up, space, storage)
                             : run(LoopTrainer(count_up), {.config = space}, storage);
    std::cout << "done " << results.size() << " " << results.num_errors() << std::endl;
    for (const Error& error : results.errors()) std::cout << error.what() << std::endl;
  } catch (const Error& error) {
    std::cout << "failed " << kind_name(error.kind()) << ": " << error.what() << std::endl;
    return 1;
  }
}
