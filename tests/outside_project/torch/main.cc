#include <manta/manta.h>
#include <manta/torch.h>

#include <iostream>

void loop() {
  auto model = manta::train::prepare_model(torch::nn::Linear(2, 1));
  auto output = model->forward(torch::ones({4, 2}));
  manta::train::report({{"answer", 42 * output.size(1)}});
}

int main(int argc, char** argv) {
  manta::init(argc, argv);
  manta::TorchTrainer trainer(
      {.train_loop_per_worker = loop, .run_config = {.storage_path = argv[1], .verbose = false}});
  std::cout << trainer.fit().metrics.at("answer") << "\n";
}
