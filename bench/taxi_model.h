#pragma once

#include <manta/torch.h>

#include "taxi_pipeline.h"

// The taxi example, in pieces that several figures are made of: data set, model, step.

struct FarePredictorImpl : torch::nn::Module {
  FarePredictorImpl()
      : layers(register_module(
            "layers", torch::nn::Sequential(torch::nn::Linear(6, 256), torch::nn::BatchNorm1d(256),
                                            torch::nn::ReLU(), torch::nn::Linear(256, 16),
                                            torch::nn::BatchNorm1d(16), torch::nn::ReLU(),
                                            torch::nn::Linear(16, 1), torch::nn::Sigmoid()))) {}
  torch::Tensor forward(torch::Tensor features) { return layers->forward(features); }

  torch::nn::Sequential layers;
};
TORCH_MODULE(FarePredictor);

/// One step of a FarePredictor or of one that was prepared.
template <class Model>
void train_step(Model& model, torch::optim::Adam& optimizer, const torch::Tensor& features,
                const torch::Tensor& labels) {
  auto loss = torch::smooth_l1_loss(model->forward(features), labels);
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();
}
