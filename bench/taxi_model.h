#pragma once

#include <manta/manta.h>
#include <manta/torch.h>

#include <string>
#include <vector>

// The taxi example, in pieces that several figures are made of: data set, model, step.

inline const std::vector<std::string> kTaxiFeatures = {
    "passenger_count", "trip_distance", "fare_amount", "trip_duration", "hour", "day_of_week"};
inline const std::string kTaxiLabel = "is_big_tip";

/// Of a Parquet file, or of a folder of them.
inline manta::Dataset load_taxi(const std::string& path) {
  using namespace manta;
  return data::read_parquet(
             path, {.columns = {"tpep_pickup_datetime", "tpep_dropoff_datetime", "tip_amount",
                                "passenger_count", "trip_distance", "fare_amount"}})
      .drop_na()
      .filter(col("passenger_count") <= 4 && col("trip_distance") < 100 &&
              col("fare_amount") < 1000)
      .with_column("trip_duration",
                   seconds_between(col("tpep_pickup_datetime"), col("tpep_dropoff_datetime")))
      .filter(col("trip_duration") < 4 * 60 * 60)
      .with_column("hour", hour(col("tpep_pickup_datetime")))
      .with_column("day_of_week", day_of_week(col("tpep_pickup_datetime")))
      .with_column(kTaxiLabel, col("tip_amount") > 0.2 * col("fare_amount"))
      .drop_columns({"tpep_pickup_datetime", "tpep_dropoff_datetime", "tip_amount"});
}

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
