// Mixed precision and gradient accumulation: matrix products in half precision, and one step of the
// optimizer for every four batches.
//
//   mixed_precision
//
// Prints the mean loss of the last epoch of a training in bfloat16, and of one in float16 with a
// GradScaler.

#include <manta/manta.h>
#include <manta/torch.h>

#include <iostream>

using namespace manta;

// 1,024 rows: is x inside a circle?
Dataset circle() {
  return data::range(1024)
      .with_column("x", (col("id") % 32) / 16.0 - 1.0)
      .with_column("y", (col("id") - col("id") % 32) / 512.0 - 1.0)
      .with_column("label", col("x") * col("x") + col("y") * col("y") < 0.5)
      .drop_columns({"id"});
}

void train_func(const Json& config) {
  constexpr int kAccumulationSteps = 4;
  bool half = config.at("dtype") == "float16";
  train::seed_all(1);
  auto model = train::prepare_model(
      torch::nn::Sequential(torch::nn::Linear(2, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1)));
  torch::optim::Adam optimizer(model->parameters(), 5e-2);
  train::GradScaler scaler({.enabled = half});

  for (int epoch = 0; epoch < 10; ++epoch) {
    torch::Tensor loss;
    double sum_of_losses = 0;
    int64_t i = 0;
    for (auto& batch : iter_torch_batches(train::get_dataset_shard(),
                                          {.batch_size = 16, .dtypes = torch::kFloat32})) {
      {
        train::Autocast autocast({.dtype = half ? torch::kFloat16 : torch::kBFloat16});
        auto output = model->forward(batch.columns({"x", "y"}));
        loss = torch::binary_cross_entropy_with_logits(output, batch["label"].unsqueeze(1)) /
               kAccumulationSteps;
      }
      scaler.scale(loss).backward();
      if (++i % kAccumulationSteps == 0) {
        scaler.unscale_(optimizer);
        model->clip_grad_norm_(1.0);
        scaler.step(optimizer);
        scaler.update();
        optimizer.zero_grad();
      }
      sum_of_losses += loss.item<double>() * kAccumulationSteps;
    }
    train::report({{"loss", sum_of_losses / static_cast<double>(i)}},
                  TorchCheckpoint::from_model(model, optimizer).add_scaler(scaler));
  }
}

int main(int argc, char** argv) try {
  manta::init(argc, argv);
  if (argc > 1) {
    bool help = std::string(argv[1]) == "--help";
    (help ? std::cout : std::cerr)
        << "usage: mixed_precision   (trains in bfloat16 and in float16)\n";
    return help ? 0 : 2;
  }
  for (const char* dtype : {"bfloat16", "float16"}) {
    TorchTrainer trainer(
        {.train_loop_per_worker = train_func,
         .train_loop_config = {{"dtype", dtype}},
         .scaling_config = {.num_workers = 2, .resources_per_worker = {.cpus = 0.5}},
         .run_config = {.checkpoint_config = {.num_to_keep = 1}},
         .datasets = {{"train", circle().random_shuffle({.seed = 1})}}});
    double loss = trainer.fit().metrics.at("loss");
    std::cout << dtype << ": " << (loss < 0.4 ? "learned" : "did not learn") << ", loss " << loss
              << std::endl;
  }
} catch (const Error& error) {
  std::cerr << "mixed_precision: " << error.what() << std::endl;
  return 1;
}
