// A network of PyTorch, trained by one process and by two workers. Between them, one line changes:
// prepare_model.
//
//   quick_start
//
// Prints the loss of both.

#include <manta/manta.h>
#include <manta/torch.h>

#include <iostream>

using namespace manta;

constexpr int64_t kNumSamples = 20, kInputSize = 10, kLayerSize = 15, kOutputSize = 5;

struct NeuralNetworkImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& input) { return layer2(torch::relu(layer1(input))); }
  torch::nn::Linear layer1 = register_module("layer1", torch::nn::Linear(kInputSize, kLayerSize));
  torch::nn::Linear layer2 = register_module("layer2", torch::nn::Linear(kLayerSize, kOutputSize));
};
TORCH_MODULE(NeuralNetwork);

// Every process draws the same: a random data set.
std::pair<torch::Tensor, torch::Tensor> samples() {
  train::seed_all(1);
  return {torch::randn({kNumSamples, kInputSize}), torch::randn({kNumSamples, kOutputSize})};
}

double train_func() {
  auto [input, labels] = samples();
  NeuralNetwork model;
  torch::nn::MSELoss loss_fn;
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  torch::Tensor loss;
  for (int epoch = 0; epoch < 3; ++epoch) {
    loss = loss_fn(model(input), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  return loss.item<double>();
}

void train_func_distributed() {
  auto [input, labels] = samples();
  auto model = train::prepare_model(NeuralNetwork());
  torch::nn::MSELoss loss_fn;
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  for (int epoch = 0; epoch < 3; ++epoch) {
    auto loss = loss_fn(model(input), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    train::report({{"loss", loss.item<double>()}});
  }
}

int main(int argc, char** argv) try {
  manta::init(argc, argv);
  if (argc > 1) {
    bool help = std::string(argv[1]) == "--help";
    (help ? std::cout : std::cerr)
        << "usage: quick_start   (trains in one process and with two workers)\n";
    return help ? 0 : 2;
  }
  std::cout << "one process: loss " << train_func() << std::endl;

  TorchTrainer trainer(
      {.train_loop_per_worker = train_func_distributed,
       .scaling_config = {.num_workers = 2, .resources_per_worker = {.cpus = 0.5}}});
  Result result = trainer.fit();
  std::cout << "2 workers: loss " << result.metrics.at("loss") << " after "
            << result.metrics_history.size() << " epochs" << std::endl;
} catch (const Error& error) {
  std::cerr << "quick_start: " << error.what() << std::endl;
  return 1;
}
