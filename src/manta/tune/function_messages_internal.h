#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/archive_json.h"
#include "manta/core/function.h"
#include "manta/core/message_codec_internal.h"
#include "manta/train/checkpoint.h"

/// What the process of a function's trial and the driver say to each other: a task's argument and
/// result, and, if the function reports, over a Unix socket in between.
namespace manta::tune {

struct TrialCall {
  Function function;
  uint8_t returns = 0;  // Trainable::Returns
  std::string metric;   // the name of a number that it returns
  Json config;
  uint64_t trial = 0;
  int32_t attempt = 0;
  int64_t next_report = 0;
  std::string name, folder;
  std::string checkpoint;
  std::string address, token;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(function, returns, metric, config, trial, attempt, next_report, name, folder,
            checkpoint, address, token);
  }
};
struct TrialReturn {
  bool stopped = false;
  bool has_metrics = false;
  Json metrics;
  int64_t report = 0;  // the number of these metrics
  template <class Archive>
  void serialize(Archive& archive) {
    archive(stopped, has_metrics, metrics, report);
  }
};

// ---- From the trial.

struct JoinExperiment {  // first on a connection
  std::string token;
  uint64_t trial = 0;
  int32_t attempt = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(token, trial, attempt);
  }
};
struct SendTrialReport {  // whose files, if it has a checkpoint, are written
  int64_t index = 0;
  Json metrics;
  bool has_checkpoint = false;
  std::vector<CheckpointFile> files;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(index, metrics, has_checkpoint, files);
  }
};
using FromTrial = std::variant<JoinExperiment, SendTrialReport>;

// ---- To the trial.

struct SendVerdict {
  int64_t index = 0;
  bool stop = false;
  std::string error;  // of the checkpoint: it is not kept, and the trial fails
  template <class Archive>
  void serialize(Archive& archive) {
    archive(index, stop, error);
  }
};
using ToTrial = std::variant<SendVerdict>;

/// Runs in a process of the run.
TrialReturn run_function_trial(const TrialCall& call);

}  // namespace manta::tune
