// A worker is killed while you watch, and the training goes on from the last checkpoint.
//
//   fault_tolerance
//
// Prints each report as it is committed. After the third one the program kills a worker's process,
// as the kernel does when memory runs out. The workers are then started again, load the checkpoint,
// and no report is missing or there twice:
//
//   epoch 2 of attempt 0, loss 0.63
//   killing worker 12345
//   epoch 3 of attempt 1, loss 0.52
//   ...
//   10 epochs, each reported once, by 2 attempts

#include <manta/manta.h>
#include <manta/torch.h>
#include <signal.h>
#include <unistd.h>

#include <iostream>

using namespace manta;

void train_func(const Json& config) {
  train::seed_all(1);  // the same first weights in each run
  auto model = train::prepare_model(torch::nn::Linear(1, 1));
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  int epoch = 0;
  if (auto checkpoint = train::get_checkpoint()) {
    TorchCheckpoint saved(checkpoint);
    saved.load_model(model);
    saved.load_optimizer(optimizer);
    epoch = saved.get("epoch").get<int>() + 1;
  }
  for (; epoch < config.at("epochs"); ++epoch) {
    auto x = torch::linspace(-1, 1, 16).unsqueeze(1);
    auto loss = torch::mse_loss(model->forward(x), 3 * x + 1);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    ::usleep(50'000);  // a real epoch takes longer
    train::report({{"epoch", epoch}, {"loss", loss.item<double>()}, {"pid", ::getpid()}},
                  TorchCheckpoint::from_model(model, optimizer).set("epoch", epoch));
  }
}

// Runs in the driver.
class KillAWorkerOnce : public Callback {
 public:
  Decision on_report(const RunInfo&, const ReportRecord& report) override {
    std::cout << "epoch " << report.metrics.at("epoch") << " of attempt " << report.attempt
              << ", loss " << report.metrics.at("loss") << std::endl;
    if (report.index == 2 && report.attempt == 0) {
      pid_t pid = report.metrics.at("pid").get<pid_t>();
      std::cout << "killing worker " << pid << std::endl;
      ::kill(pid, SIGKILL);
    }
    return Decision::go_on();
  }
  void on_failure(const RunInfo&, const RunFailure& failure) override {
    std::cout << failure.who << " failed: " << failure.message.substr(0, failure.message.find('\n'))
              << std::endl;
    ++failures;
  }
  int failures = 0;
};

int main(int argc, char** argv) try {
  manta::init(argc, argv);
  if (argc > 1) {
    bool help = std::string(argv[1]) == "--help";
    (help ? std::cout : std::cerr) << "usage: fault_tolerance   (kills a worker and goes on)\n";
    return help ? 0 : 2;
  }
  auto killer = std::make_shared<KillAWorkerOnce>();
  TorchTrainer trainer(
      {.train_loop_per_worker = train_func,
       .train_loop_config = {{"epochs", 10}},
       .scaling_config = {.num_workers = 2, .resources_per_worker = {.cpus = 0.5}},
       .run_config = {
           .failure_config = {.max_failures = 3}, .verbose = false, .callbacks = {killer}}});
  Result result = trainer.fit();
  for (size_t i = 0; i < result.metrics_history.size(); ++i) {
    if (result.metrics_history[i].at("epoch") != i)
      throw Error(ErrorKind::kCorrupt, "epoch " + std::to_string(i) + " is not where it should be");
  }
  std::cout << result.metrics_history.size() << " epochs, each reported once, by "
            << killer->failures + 1 << " attempts" << std::endl;
} catch (const Error& error) {
  std::cerr << "fault_tolerance: " << error.what() << std::endl;
  return 1;
}
