#pragma once

#include <memory>
#include <optional>
#include <string>

#include "manta/base/json.h"
#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"
#include "manta/train/checkpoint.h"
#include "manta/train/config.h"
#include "manta/train/controller_internal.h"
#include "manta/train/journal_internal.h"
#include "manta/train/owned_folder_internal.h"

namespace manta::train {

/// The folder of one run: params.json, journal.jsonl, and the files made from it. Only one driver
/// at a time may use it: the driver holds a lock that the kernel releases when the driver ends, in
/// whatever way. Only the folder's owner and root may use it: another user's folder could change
/// while it is read.
class RunFolder {
 public:
  /// Makes <storage_path>/<name>. Throws Error(kInvalidArgument) if there is a run in it already,
  /// or remains of a run's checkpoints, if it belongs to another user, if the name cannot be that
  /// of a folder, or if params.json would be too large to be read again; Error(kIo) naming the
  /// process if another program uses it. After an error the name can be used again.
  static std::unique_ptr<RunFolder> create(const RunConfig& config, const Json& params);
  /// The folder of a run whose driver has ended. Throws Error(kNotFound) if there is no run in it,
  /// Error(kIo) naming the process if its driver still runs, Error(kInvalidArgument) if it belongs
  /// to another user, Error(kCorrupt) naming the file and what is wrong with it.
  static std::unique_ptr<RunFolder> open(const std::string& path);

  const std::string& path() const { return path_; }  ///< Absolute.
  const Json& params() const { return params_; }
  /// Writes params.json anew, in one step.
  void set_params(Json params);
  /// Waits until the disk has the folder as it is, and from now on whenever params.json is written:
  /// for CheckpointConfig::fsync. Throws Error(kIo), as does `sync`.
  void make_durable();
  /// Waits until the disk has the journal; does nothing without `make_durable`.
  void sync();
  /// The history of this run, up to date.
  const History& history() const { return history_; }

  /// Removes a run that could not begin: its name can be used again.
  void forget();
  /// True if the folder, or its journal, has been removed or moved while the run goes on.
  bool is_gone() const;

  /// Where a restored run goes on, given the latest valid checkpoint. If the driver died between
  /// the commit of that checkpoint and its report's entry in the journal, makes the entry.
  Controller::Start resume(const std::optional<Checkpoint>& checkpoint);

  /// Appends a note of the controller to the journal. Throws Error(kIo), as does `report`.
  void note(const Note& note);
  /// Appends a report that is committed. `checkpoint` is its folder's name, or empty.
  void report(int attempt, int64_t index, const Json& metrics, const Json& positions,
              const std::string& checkpoint);

 private:
  RunFolder(OwnedFolder folder, Json params);
  void append(JournalEvent event);
  void append_report(double time, int attempt, int64_t index, const Json& metrics,
                     const Json& positions, const std::string& checkpoint);

  std::string path_;
  UniqueFd lock_;
  Json params_;
  Journal journal_;
  History history_;
  bool is_durable_ = false;
};

}  // namespace manta::train
