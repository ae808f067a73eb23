#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "manta/base/json.h"
#include "manta/train/checkpoint.h"
#include "manta/train/config.h"

namespace manta::train {

/// "checkpoint_000007" for report 7.
std::string checkpoint_name(int64_t index);

/// The report of a committed checkpoint's name; nothing for other names.
std::optional<int64_t> checkpoint_index(const std::string& name);

/// Whether a name is that of a checkpoint that is not committed, or is being removed.
bool is_partial_checkpoint(const std::string& name);

/// What a commit needs to know about a report.
struct CheckpointReport {
  int64_t index = 0;
  int attempt = 0;
  int world_size = 1;
  Json metrics = {};
  Json positions = {};
};

/// The largest CheckpointConfig::max_in_flight.
inline constexpr int kMostInFlight = 1000;
/// Throws Error(kInvalidArgument) if the options make no sense.
void check_checkpoint_config(const CheckpointConfig& config);

/// Copies of a run's checkpoints outside its folder, such as in a store. The run's thread makes all
/// calls.
class CheckpointCopies {
 public:
  virtual ~CheckpointCopies() = default;
  /// The copies that exist, by report. Checkpoints that only the run folder has, or with other
  /// content, are then `committed`. Throws Error(kIo).
  virtual std::map<int64_t, Checkpoint> find_copies(const std::map<int64_t, Checkpoint>& here) = 0;
  /// Writes a copy into an empty folder. Throws Error(kNotFound), Error(kCorrupt) if it is damaged,
  /// Error(kIo).
  virtual void fetch(int64_t index, const std::string& folder) = 0;
  /// Called when there is such a checkpoint in the run folder, in the place of any other of this
  /// report. It may be removed before it is copied.
  virtual void committed(int64_t index, const std::string& folder) = 0;
  /// Called when there is no checkpoint of this report any more.
  virtual void discarded(int64_t index) = 0;
};

/// The checkpoints of one run folder.
///
/// Ranks write below <run>/.staging; a commit moves their files to <run>/checkpoint_000007.partial,
/// writes the manifest and renames that folder to <run>/checkpoint_000007. So whenever the process
/// is killed, a folder of that name is complete. Nothing is fsync'ed: after a power cut, the newest
/// checkpoints may be damaged; their checksums show it, and find_latest_valid() takes an earlier
/// one.
class CheckpointStore {
 public:
  /// Lists the checkpoints of the folder. Warns about damaged ones, and ignores them. Throws
  /// Error(kIo) or Error(kResources) if it cannot tell whether one is damaged. With `copies`, which
  /// must outlive this object, checkpoints that exist only there count as well: one is fetched when
  /// the run is to go on from it.
  CheckpointStore(std::string run_folder, CheckpointConfig config,
                  CheckpointCopies* copies = nullptr);

  /// The folder in which one rank, or the driver, writes its files of one report.
  std::string staging_folder(int attempt, int64_t index, int rank) const;

  /// Makes a checkpoint from the files that the ranks, and the driver (-2), wrote to their staging
  /// folders. A checkpoint without the metric of the score ranks last; the first such one brings a
  /// warning. Throws Error(kInvalidArgument) if two ranks wrote the same name, or if one rank's
  /// file name is a folder of another's, Error(kIo), or Error(kCorrupt) if a file is not as long as
  /// its writer said; then there is no checkpoint, and the files are gone.
  ///
  /// The same in three steps. Any thread may do the second one, while other threads call anything
  /// but these three: with CheckpointConfig::fsync it waits for the disk, and calls `on_part`
  /// whenever the disk has taken some more.
  void prepare(const CheckpointReport& report,
               const std::map<int, std::vector<CheckpointFile>>& files_by_rank);
  void publish(const std::function<void()>& on_part = [] {}) const;
  Checkpoint adopt();
  Checkpoint commit(const CheckpointReport& report,
                    const std::map<int, std::vector<CheckpointFile>>& files_by_rank);

  /// Removes checkpoints beyond CheckpointConfig::num_to_keep, never the latest. Call it when the
  /// latest commit's report is on record: until then a restart begins with the checkpoint before.
  void keep_only_the_best();

  /// The latest checkpoint, of report `at_most` or an earlier one, whose sizes and checksums are
  /// right. Warns about checkpoints that are damaged, and forgets them: a later commit of the same
  /// report replaces them. Reads all of its files. Throws Error(kIo) or Error(kResources) if it
  /// cannot tell whether one is damaged: then it forgets nothing.
  std::optional<Checkpoint> find_latest_valid(int64_t at_most = INT64_MAX);

  /// The checkpoint of one report, if it is there. Checks only the sizes.
  std::optional<Checkpoint> find(int64_t index) const;

  /// The checkpoints on disk and their metrics: best last if there is a score, otherwise in their
  /// order.
  std::vector<std::pair<Checkpoint, Json>> best_checkpoints() const;

  /// Removes the remains of killed commits and workers. Call it only while no group runs.
  void clean_up();

 private:
  struct Stored {
    Checkpoint checkpoint;
    std::optional<double> score;  // higher is better; the index without a score attribute
    bool is_elsewhere = false;    // among the copies only
  };

  std::string path(const std::string& name) const { return run_folder_ + "/" + name; }
  std::optional<double> score(const Json& metrics, int64_t index) const;
  std::vector<int64_t> best_last() const;
  void move_files(const std::map<int, std::vector<CheckpointFile>>& files_by_rank,
                  const CheckpointReport& report, const std::string& partial, Json& manifest);
  void discard(const std::string& name) const;
  void fetch(int64_t index);

  std::string run_folder_;
  CheckpointConfig config_;
  CheckpointCopies* copies_;
  Stored prepared_;  // the prepared checkpoint, which does not count yet, and its report
  int64_t prepared_report_ = 0;
  std::map<int64_t, Stored> stored_;
  bool told_of_missing_score_ = false;
};

}  // namespace manta::train
