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
#include "manta/train/file_chunks_internal.h"
#include "manta/train/standstill_internal.h"

/// The messages between the processes of a training group and the driver. On the driver's node each
/// process has a Unix socket; on other nodes each has an encrypted connection, which carries no
/// descriptors.
namespace manta::train {

// ---- From a process of the group.

struct Join {  // first on a connection
  std::string token;
  int32_t attempt = 0;
  int32_t rank = 0;           // kDataReader for a data reader
  uint32_t node = 0;          // where it runs
  bool shares_folder = true;  // it sees the run's folder
  int32_t pid = 0;            // on its node
  template <class Archive>
  void serialize(Archive& archive) {
    archive(token, attempt, rank, node, shares_folder, pid);
  }
};
struct Hosting {  // from the first worker of a node: the others of that node can connect to it
  template <class Archive>
  void serialize(Archive&) {}
};
struct SendReport {
  int64_t index = 0;
  Json metrics;
  Json positions;  // by data set
  bool has_checkpoint = false;
  std::optional<uint64_t> fingerprint;
  bool trained_alone = false;    // see CheckpointSource::was_trained_alone
  bool needs_all_ranks = false;  // the checkpoint is this rank's part of one
  template <class Archive>
  void serialize(Archive& archive) {
    archive(index, metrics, positions, has_checkpoint, fingerprint, trained_alone, needs_all_ranks);
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
struct SendWriting {  // it has written more of a checkpoint since the last such message
  template <class Archive>
  void serialize(Archive&) {}
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
  std::optional<Activity> activity = {};  // if it is a consequence
  template <class Archive>
  void serialize(Archive& archive) {
    archive(kind, message, consequence, activity);
  }
};
struct SendDone {  // the loop has returned
  int64_t collectives = 0, passes = 0;
  int64_t asks = 0;   // how often it has called train::should_stop
  bool told = false;  // a call has returned true
  template <class Archive>
  void serialize(Archive& archive) {
    archive(collectives, passes, asks, told);
  }
};
struct SendAsks {     // the answer to WantAsks
  int64_t count = 0;  // calls of train::should_stop that were answered with no
  template <class Archive>
  void serialize(Archive& archive) {
    archive(count);
  }
};
struct SendProgress {  // now and then
  std::string dataset = {};
  int64_t epoch = 0, steps = 0;
  int64_t rows = 0;                         // of this process
  int64_t epoch_rows = 0, epoch_total = 0;  // of all processes; the total is 0 if it is not known
                                            // yet
  double wait_seconds = 0;                  // spent waiting for data
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
  /// kMissing asks which ranks have not made report `amount`.
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
// A data reader that was given ReaderPeers reports how far it is; if it cannot go on, `why` is the
// reason.
struct SendPort {  // others can connect to it
  uint16_t port = 0;
  std::string why;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(port, why);
  }
};
struct SendMesh {  // it is connected with all others
  std::string why;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(why);
  }
};
struct WantThreads {  // from a data reader as a pass begins; answered by UseThreads
  template <class Archive>
  void serialize(Archive&) {}
};
using FromMember = std::variant<Join, SendReport, SendFiles, SendActivity, SendFailure, SendDone,
                                SendProgress, SendEpoch, StoreRequest, Hosting, SendChunk,
                                WantChunk, SendAsks, SendPort, SendMesh, SendWriting, WantThreads>;

// ---- To a process of the group.

/// A worker's place among the workers of its node, and its node's place among the nodes.
struct Place {
  int32_t local_rank = 0, local_size = 1;
  int32_t node_rank = 0, num_nodes = 1;
  std::string node;                   // its host's name
  std::string address = "127.0.0.1";  // at which ranks of other nodes reach it
  std::vector<int32_t> node_ranks;    // of all ranks
  /// Whether collectives go through shared memory within each node.
  bool shared_memory = false;
  /// A socket in the temporary folder of its node, on which the node's first worker hands out
  /// descriptors. Empty on the driver's node: there the descriptors come with the message.
  std::string meeting = {};
  bool meets_reader = false;
  bool shares_folder = true;      // it sees the run's folder
  bool shares_checkpoint = true;  // it sees the checkpoint that the attempt begins with
  template <class Archive>
  void serialize(Archive& archive) {
    archive(local_rank, local_size, node_rank, num_nodes, node, address, node_ranks, shared_memory,
            meeting, meets_reader, shares_folder, shares_checkpoint);
  }
};
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
  /// The files of it to fetch: for the first worker of a node that does not see the run's folder.
  std::vector<std::string> checkpoint_files;
  std::map<std::string, data::Position> datasets;
  std::map<std::string, int64_t> epochs;  // of data sets that are repeated
  int64_t timeout_ms = 0;
  int32_t max_in_flight = 1;  // checkpoints
  Place place;
  SharedFd feed;    // to the data reader
  SharedFd region;  // for collectives within this node, if they go through shared memory
  template <class Archive>
  void serialize(Archive& archive) {
    archive(attempt, rank, world_size, run_name, run_folder, loop, loop_takes_config, config,
            framework, prepare_worker, next_report, checkpoint, checkpoint_files, datasets, epochs,
            timeout_ms, max_in_flight, place, feed, region);
  }
};
/// For a data reader that may share the reading with the readers of other nodes.
struct ReaderPeers {
  int32_t node_rank = 0;
  std::string address;              // of its node, to listen on
  std::vector<std::string> hosts;   // names, by node rank; none: the reader shares nothing
  std::vector<int32_t> node_ranks;  // by rank
  bool always = false;              // SplitReading::kAlways
  template <class Archive>
  void serialize(Archive& archive) {
    archive(node_rank, address, hosts, node_ranks, always);
  }
};
struct BeginReading {
  std::map<std::string, data::WirePlan> plans;  // on the driver's node; see PlanBundle
  int64_t timeout_ms = 0;
  std::string meeting;            // as in Place
  std::vector<SharedFd> workers;  // of its node, by rank
  ReaderPeers peers;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(plans, timeout_ms, meeting, workers, peers);
  }
};
struct MeetReaders {                   // all readers listen: each connects to the readers before it
  std::vector<std::string> addresses;  // by node rank
  template <class Archive>
  void serialize(Archive& archive) {
    archive(addresses);
  }
};
struct ReadNow {  // all readers are connected; or some cannot connect, and each reads by itself
  bool alone = false;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(alone);
  }
};
struct UseThreads {  // the number of its node's processors that are this run's share now
  int32_t threads = 1;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(threads);
  }
};
struct Acknowledged {  // every rank has made this report; it may be committed already
  int64_t index = 0;
  bool committed = false;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(index, committed);
  }
};
struct Writing {  // some rank, or the driver, makes progress in writing a checkpoint
  template <class Archive>
  void serialize(Archive&) {}
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
// The run is to end. All ranks must get the same answer to the same call of train::should_stop. So
// each rank is first asked how many calls it has answered, and answers no further call until it is
// told from which call on the answer is yes: the first call that no rank has answered.
struct WantAsks {
  template <class Archive>
  void serialize(Archive&) {}
};
struct StopFrom {
  int64_t ask = 0;  // counted from 1
  template <class Archive>
  void serialize(Archive& archive) {
    archive(ask);
  }
};
using ToMember =
    std::variant<BeginTraining, BeginReading, Acknowledged, StoreReply, ChunkTaken, FileChunk,
                 WantAsks, StopFrom, MeetReaders, ReadNow, Writing, UseThreads>;

// ---- Between data readers of different nodes: the first message on a connection.

struct ReaderHello {
  std::string token;
  int32_t attempt = 0;
  int32_t node_rank = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(token, attempt, node_rank);
  }
};
using AtMesh = std::variant<ReaderHello>;

// ---- Between processes of a node other than the driver's.

struct Visit {  // to the first worker; answered by Descriptors
  std::string token;
  int32_t local_rank = 0;  // kDataReader for the data reader
  template <class Archive>
  void serialize(Archive& archive) {
    archive(token, local_rank);
  }
};
struct Descriptors {
  SharedFd feed, region;          // of a worker
  std::vector<SharedFd> workers;  // of the data reader
  template <class Archive>
  void serialize(Archive& archive) {
    archive(feed, region, workers);
  }
};
using AtMeeting = std::variant<Visit, Descriptors>;

}  // namespace manta::train
