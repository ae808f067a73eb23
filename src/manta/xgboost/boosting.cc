#include <arrow/util/thread_pool.h>

#include "manta/io/checksum_internal.h"
#include "manta/train/session_internal.h"
#include "manta/xgboost/booster_internal.h"
#include "manta/xgboost/boosting_internal.h"
#include "manta/xgboost/communicator_internal.h"
#include "manta/xgboost/training_matrix_internal.h"

namespace manta::xgboost {
namespace {

/// Every rank has the whole model; rank 0 writes it.
class ModelSource final : public CheckpointSource {
 public:
  ModelSource(std::string bytes, bool writes) : bytes_(std::move(bytes)), writes_(writes) {}
  void stage() override {}
  void write(CheckpointFolder& folder) override {
    if (writes_) folder.write(kModelFile, bytes_);
  }
  std::optional<uint64_t> fingerprint() const override {
    Checksum checksum;
    checksum.add(bytes_.data(), bytes_.size());
    return std::stoull(checksum.hex(), nullptr, 16);
  }

 private:
  const std::string bytes_;
  const bool writes_;
};

// Sets as many threads as the runtime has granted this worker, and the same random choices in a
// round whether the run was interrupted before it or not. The user's parameters take precedence.
Json with_defaults(const Json& params, int threads) {
  Json all = {{"nthread", threads}, {"seed_per_iteration", true}, {"validate_parameters", true}};
  if (params.contains("n_jobs")) all.erase("nthread");
  all.update(params);
  return all;
}

// Whether rows, columns or trees are chosen at random. The library draws the start of such choices
// when it builds its first tree, in the first round or in the round with which a run goes on.
bool chooses_at_random(const Json& params) {
  for (const auto& [name, value] : params.items()) {
    if (name.starts_with("colsample_") || name == "subsample") return true;
  }
  return params.value("booster", "") == "dart";
}

// Whether the library trains on bins alone with these parameters.
bool trains_on_bins(const Json& params) {
  std::string method = params.value("tree_method", "auto");
  return (method == "auto" || method == "hist") && params.value("booster", "") != "gblinear" &&
         !params.contains("updater");
}

class Training {
 public:
  explicit Training(const Json& config)
      : session_(train::Session::current("XGBoostTrainer")),
        config_(config),
        rank_(session_.begin().rank) {}

  void run() {
    log_library_messages();
    Communicator communicator(session_);
    make_matrices();
    Booster booster = make_booster();
    int rounds = config_.at("num_boost_round");
    for (int done = booster.rounds(); done < rounds;) {
      if (chooses_at_random(config_.at("params"))) booster.restart_random_choices();
      booster.update(matrices_.front()->handle());
      done = booster.rounds();
      bool stops = session_.should_stop();
      report(booster, done, done >= rounds, stops);
      if (stops) break;
    }
    communicator.finish();
  }

 private:
  void make_matrices() {
    const Json& params = config_.at("params");
    MatrixOptions options;
    options.threads = arrow::GetCpuThreadPoolCapacity();
    options.binned = trains_on_bins(params);
    if (params.contains("max_bin")) {
      for (const auto& [name, text] : parameter_texts({{"max_bin", params.at("max_bin")}})) {
        options.max_bin = text;
      }
    }
    std::vector<std::string> names = {"train"};
    for (const auto& [name, position] : session_.begin().datasets) {
      if (name != "train") names.push_back(name);
    }
    for (const auto& name : names) {
      const TrainingMatrix* reference = matrices_.empty() ? nullptr : matrices_.front().get();
      matrices_.push_back(std::make_unique<TrainingMatrix>(
          session_.shard(name), config_.at("label_column"), columns_, reference, options));
    }
  }

  Booster make_booster() {
    std::vector<void*> handles;
    for (const auto& matrix : matrices_) handles.push_back(matrix->handle());
    Checkpoint checkpoint = session_.checkpoint();
    Booster booster =
        checkpoint ? Booster::load(checkpoint.file(kModelFile), handles) : Booster(handles);
    booster.set(with_defaults(config_.at("params"), arrow::GetCpuThreadPoolCapacity()));
    if (!checkpoint) {
      booster.set_feature_names(feature_names(columns_.features));
      booster.set_attribute(kLabelAttribute, columns_.label);
      if (std::string widths = vector_widths(columns_.features); !widths.empty()) {
        booster.set_attribute(kVectorsAttribute, widths);
      }
    } else if (booster.feature_names() != feature_names(columns_.features)) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("the model in '", checkpoint.path(), "' was trained on other columns than ",
                      "data set 'train' has"));
    }
    return booster;
  }

  // A run that is to be resumed later always has a checkpoint.
  void report(Booster& booster, int done, bool is_last, bool stops) {
    std::vector<std::pair<std::string, void*>> evaluated;
    for (const auto& matrix : matrices_) evaluated.emplace_back(matrix->name(), matrix->handle());
    Json metrics = booster.evaluate(evaluated);
    const Json& schedule = session_.begin().framework;
    int frequency = schedule.at("checkpoint_frequency");
    bool saves = is_last ? schedule.at("checkpoint_at_end").get<bool>()
                         : frequency > 0 && done % frequency == 0;
    if (saves || stops) {
      session_.report(metrics, std::make_shared<ModelSource>(booster.save(), rank_ == 0));
    } else {
      session_.report(metrics, nullptr);
    }
  }

  train::Session& session_;
  const Json& config_;
  const int rank_;
  TrainingColumns columns_;
  std::vector<std::unique_ptr<TrainingMatrix>> matrices_;  // "train" first
};

}  // namespace

void boost(const Json& config) { Training(config).run(); }

}  // namespace manta::xgboost
