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

/// Whether a name is of one that is not committed, or is being removed.
bool is_partial_checkpoint(const std::string& name);

/// What a commit needs to know of a report.
struct CheckpointReport {
  int64_t index = 0;
  int attempt = 0;
  int world_size = 1;
  Json metrics = {};
  Json positions = {};
};

/// The largest CheckpointConfig::max_in_flight.
inline constexpr int kMostInFlight = 1000;
/// Throws Error(kInvalidArgument) if it makes no sense.
void check_checkpoint_config(const CheckpointConfig& config);

/// Copies of a run's checkpoints in another place than its folder, such as a store. Calls come from
/// the thread of the run.
class CheckpointCopies {
 public:
  virtual ~CheckpointCopies() = default;
  /// Those that are there, by report. What the run folder has besides them, or in other content, is
  /// `committed`. Throws Error(kIo).
  virtual std::map<int64_t, Checkpoint> find_copies(const std::map<int64_t, Checkpoint>& here) = 0;
  /// Writes one into an empty folder. Throws Error(kNotFound) or Error(kCorrupt) if it is damaged,
  /// Error(kIo).
  virtual void fetch(int64_t index, const std::string& folder) = 0;
  /// There is such a checkpoint in the run folder, in the place of any other of this report. It may
  /// be gone before it was copied.
  virtual void committed(int64_t index, const std::string& folder) = 0;
  /// There is none of this report any more.
  virtual void discarded(int64_t index) = 0;
};

/// The checkpoints of one run folder.
///
/// Ranks write below <run>/.staging; a commit moves their files to <run>/checkpoint_000007.partial,
/// writes the manifest and renames that to <run>/checkpoint_000007. So whenever the process is
/// killed, a folder of that name is complete. Nothing is fsync'ed: after a power cut, the newest
/// ones may be damaged; their checksums tell, and find_latest_valid() takes the one before.
class CheckpointStore {
 public:
  /// Looks at what is there. Warns of those that are damaged, and does without them. Throws
  /// Error(kIo) or Error(kResources) if that cannot be told.
  /// With `copies`, which must outlive this, those that are only there count as well: they are
  /// fetched when one is to be gone on from.
  CheckpointStore(std::string run_folder, CheckpointConfig config,
                  CheckpointCopies* copies = nullptr);

  /// Where one rank, or the driver, writes its files of one report.
  std::string staging_folder(int attempt, int64_t index, int rank) const;

  /// Makes a checkpoint of the files that the ranks, and the driver (-2), wrote to their staging
  /// folders. One without the
  /// metric that the score is taken from ranks last; the first such one is warned of. Throws
  /// Error(kInvalidArgument) if two ranks wrote the same name, or one's file would be in another's,
  /// Error(kIo), or Error(kCorrupt) if a file is not as long as its writer said; then there is no
  /// checkpoint, and the files are gone.
  ///
  /// The same in three steps, the second of which any thread may do, while others do anything but
  /// these: with CheckpointConfig::fsync it waits for the disk, and calls `on_part` whenever the
  /// disk has some more.
  void prepare(const CheckpointReport& report,
               const std::map<int, std::vector<CheckpointFile>>& files_by_rank);
  void publish(const std::function<void()>& on_part = [] {}) const;
  Checkpoint adopt();
  Checkpoint commit(const CheckpointReport& report,
                    const std::map<int, std::vector<CheckpointFile>>& files_by_rank);

  /// Removes those that CheckpointConfig::num_to_keep leaves no place for, never the latest. To be
  /// called when the latest commit's report is on record: until then a restart begins with the one
  /// before.
  void keep_only_the_best();

  /// The latest whose sizes and checksums are right, of the report `at_most` or one before. Warns
  /// about those that are not, and forgets them: a later commit of the same report replaces them.
  /// Reads all of its files. Throws Error(kIo) or Error(kResources) if it cannot tell whether one
  /// is damaged: nothing is forgotten then.
  std::optional<Checkpoint> find_latest_valid(int64_t at_most = INT64_MAX);

  /// The checkpoint of one report, if it is there. Looks only at the sizes.
  std::optional<Checkpoint> find(int64_t index) const;

  /// Those on disk and their metrics: best last if there is a score, else in their order.
  std::vector<std::pair<Checkpoint, Json>> best_checkpoints() const;

  /// Removes what commits and workers that were killed have left. Only while no group runs.
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
  Stored prepared_;  // which is not among those that count yet, and its report
  int64_t prepared_report_ = 0;
  std::map<int64_t, Stored> stored_;
  bool told_of_missing_score_ = false;
};

}  // namespace manta::train
