// Checkpoints: a run writes one every tenth epoch, and another run begins from the last of them.
//
//   checkpoint_resume
//
// Prints where each run began and ended.

#include <manta/manta.h>
#include <manta/torch.h>

#include <iostream>

using namespace manta;

void train_func(const Json& config) {
  train::seed_all(1);  // the same first weights in each run
  auto model = train::prepare_model(torch::nn::Linear(1, 1));
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  LinearWarmup scheduler(optimizer, {.steps = 10}, CosineAnnealingLR(optimizer, {.t_max = 90}));
  int epoch = 0;
  if (auto checkpoint = train::get_checkpoint()) {
    TorchCheckpoint saved(checkpoint);
    saved.load_model(model);
    saved.load_optimizer(optimizer);
    saved.load_scheduler(scheduler);
    epoch = saved.get("epoch").get<int>() + 1;
  }
  const int first = epoch;
  for (; epoch < config.at("epochs"); ++epoch) {
    auto x = torch::linspace(-1, 1, 16).unsqueeze(1);
    auto loss = torch::mse_loss(model->forward(x), 3 * x + 1);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    scheduler.step();

    // A checkpoint now and then.
    if ((epoch + 1) % 10 == 0) {
      train::report({{"first", first}, {"epoch", epoch}, {"loss", loss.item<double>()}},
                    TorchCheckpoint::from_model(model, optimizer)
                        .add_scheduler(scheduler)
                        .set("epoch", epoch));
    }
  }
}

Result run(int epochs, const Checkpoint& previous_checkpoint) {
  TorchTrainer trainer({.train_loop_per_worker = train_func,
                        .train_loop_config = {{"epochs", epochs}},
                        .scaling_config = {.num_workers = 2, .resources_per_worker = {.cpus = 0.5}},
                        .run_config = {.failure_config = {.max_failures = 3}},
                        .resume_from_checkpoint = previous_checkpoint});
  Result result = trainer.fit();
  std::cout << "epochs " << result.metrics.at("first") << " to " << result.metrics.at("epoch")
            << ", loss " << result.metrics.at("loss") << std::endl;
  return result;
}

int main(int argc, char** argv) try {
  manta::init(argc, argv);
  if (argc > 1) {
    bool help = std::string(argv[1]) == "--help";
    (help ? std::cout : std::cerr)
        << "usage: checkpoint_resume   (trains twice, the second time from a checkpoint)\n";
    return help ? 0 : 2;
  }
  Result first = run(50, {});
  run(100, first.checkpoint);
} catch (const Error& error) {
  std::cerr << "checkpoint_resume: " << error.what() << std::endl;
  return 1;
}
