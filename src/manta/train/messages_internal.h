#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/archive_json.h"
#include "manta/core/function.h"
#include "manta/core/message_codec_internal.h"
#include "manta/data/feed_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/train/checkpoint.h"
#include "manta/train/standstill_internal.h"

/// What the processes of a training group and the driver say to each other, over a Unix socket
/// each.
namespace manta::train {

// ---- From a process of the group.

struct Join {  // first on a connection
  std::string token;
  int32_t attempt = 0;
  int32_t rank = 0;  // kDataReader for the data reader
  template <class Archive>
  void serialize(Archive& archive) {
    archive(token, attempt, rank);
  }
};
struct SendReport {
  int64_t index = 0;
  Json metrics;
  Json positions;  // by data set
  bool has_checkpoint = false;
  std::optional<uint64_t> fingerprint;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(index, metrics, positions, has_checkpoint, fingerprint);
  }
};
struct SendFiles {  // the checkpoint of that report is on disk
  int64_t index = 0;
  std::vector<CheckpointFile> files;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(index, files);
  }
};
struct SendActivity {  // the loop has been waiting for others for a while
  Activity activity;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(activity);
  }
};
struct SendFailure {
  ErrorKind kind = ErrorKind::kUserCode;
  std::string message;
  bool consequence = false;
  std::optional<Activity> activity = {};  // of a consequence
  template <class Archive>
  void serialize(Archive& archive) {
    archive(kind, message, consequence, activity);
  }
};
struct SendDone {  // the loop has returned
  int64_t collectives = 0, passes = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(collectives, passes);
  }
};
struct SendProgress {  // now and then
  std::string dataset = {};
  int64_t epoch = 0, steps = 0;
  int64_t rows = 0;                         // of this process
  int64_t epoch_rows = 0, epoch_total = 0;  // of all; the total is 0 if it is not known yet
  double wait_seconds = 0;                  // for data
  template <class Archive>
  void serialize(Archive& archive) {
    archive(dataset, epoch, steps, rows, epoch_rows, epoch_total, wait_seconds);
  }
};
struct SendEpoch {  // a pass over a data set begins or ends; from rank 0
  std::string dataset = {};
  int64_t epoch = 0, rows = 0;
  bool begins = true;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(dataset, epoch, rows, begins);
  }
};
struct StoreRequest {  // answered by StoreReply; a key-value store for process groups
  /// kMissing: which ranks have not made report `amount`.
  enum Kind : uint8_t { kSet, kGet, kAdd, kCompareSet, kCheck, kDelete, kCount, kMissing };
  uint64_t request = 0;
  Kind kind = kSet;
  std::vector<std::string> keys = {};
  std::string value = {}, expected = {};
  int64_t amount = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(request, kind, keys, value, expected, amount);
  }
};
using FromMember = std::variant<Join, SendReport, SendFiles, SendActivity, SendFailure, SendDone,
                                SendProgress, SendEpoch, StoreRequest>;

// ---- To a process of the group.

struct BeginTraining {
  int32_t attempt = 0, rank = 0, world_size = 0;
  std::string run_name, run_folder;
  Function loop;
  bool loop_takes_config = true;
  Json config;
  Json framework;  // for the framework's own use
  std::optional<Function> prepare_worker;
  int64_t next_report = 0;
  std::string checkpoint;  // its folder; empty if there is none
  std::map<std::string, data::Position> datasets;
  int64_t timeout_ms = 0;
  int32_t max_in_flight = 1;  // checkpoints
  SharedFd feed;              // to the data reader
  SharedFd region;            // for collectives within this host, if they go through shared memory
  template <class Archive>
  void serialize(Archive& archive) {
    archive(attempt, rank, world_size, run_name, run_folder, loop, loop_takes_config, config,
            framework, prepare_worker, next_report, checkpoint, datasets, timeout_ms, max_in_flight,
            feed, region);
  }
};
struct BeginReading {
  std::map<std::string, data::WirePlan> plans;
  int32_t threads = 1;
  int64_t timeout_ms = 0;
  std::vector<SharedFd> workers;  // by rank
  template <class Archive>
  void serialize(Archive& archive) {
    archive(plans, threads, timeout_ms, workers);
  }
};
struct Acknowledged {  // every rank has made this report; and it is committed, or not yet
  int64_t index = 0;
  bool committed = false;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(index, committed);
  }
};
struct StoreReply {
  uint64_t request = 0;
  bool found = true;
  std::string value;
  int64_t number = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(request, found, value, number);
  }
};
using ToMember = std::variant<BeginTraining, BeginReading, Acknowledged, StoreReply>;

}  // namespace manta::train
