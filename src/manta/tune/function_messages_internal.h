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
#include "manta/train/driver_entry_internal.h"
#include "manta/train/file_chunks_internal.h"

/// The messages between the process of a function's trial and the driver: a task's argument and
/// result and, if the function reports, messages over a connection: a Unix socket on the driver's
/// node, TLS on other nodes.
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
  /// The files of it to fetch on a node that does not see the experiment's folder. None on one
  /// machine.
  std::vector<std::string> checkpoint_files;
  train::DriverEntry entry;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(function, returns, metric, config, trial, attempt, next_report, name, folder,
            checkpoint, checkpoint_files, entry);
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
  uint32_t node = 0;  // where it runs
  template <class Archive>
  void serialize(Archive& archive) {
    archive(token, trial, attempt, node);
  }
};
struct SendTrialReport {  // if it has a checkpoint, the files are on the driver's disk
  int64_t index = 0;
  Json metrics;
  bool has_checkpoint = false;
  std::vector<CheckpointFile> files;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(index, metrics, has_checkpoint, files);
  }
};
using FromTrial = std::variant<JoinExperiment, SendTrialReport, train::SendChunk, train::WantChunk>;

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
struct FilesFailed {  // instead of ChunkTaken or FileChunk
  ErrorKind kind = ErrorKind::kIo;
  std::string message;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(kind, message);
  }
};
using ToTrial = std::variant<SendVerdict, train::ChunkTaken, train::FileChunk, FilesFailed>;

/// Runs in a process of the run.
TrialReturn run_function_trial(const TrialCall& call);

}  // namespace manta::tune
