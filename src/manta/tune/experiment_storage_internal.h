#pragma once

#include <functional>
#include <memory>
#include <string>

#include "manta/train/spool_internal.h"
#include "manta/tune/experiment_folder_internal.h"

namespace manta::tune {

/// Where an experiment is kept, like train::RunStorage for a run: in a folder, or at an address.
/// With an address, it has a folder on this machine only while it goes on, and a mirror copies
/// experiment.json, the journal and the checkpoints of functions' trials to the address. Trials of
/// trainers are runs at addresses below it, each with its own folder and mirror.
///
/// What the store's journal says is true of the store's files: a checkpoint is stored before the
/// journal's line about it, and a whole trial of a trainer before the line that says how it ended.
struct ExperimentStorage {
  std::unique_ptr<ExperimentFolder> folder;
  std::unique_ptr<train::RunMirror> mirror;  ///< Null without an address.

  /// Throws as ExperimentFolder::create and train::mirror_of_new. `on_news` as RunMirror.
  static ExperimentStorage create(const train::FolderKind& kind, const RunConfig& run,
                                  const Json& settings, std::function<void()> on_news);
  /// Opens an experiment by its folder or its address. The mirror of a folder in a spool waits for
  /// RunMirror::checkpoints_are_known. Throws as ExperimentFolder::open and
  /// train::mirror_of_stored.
  static ExperimentStorage open(const train::FolderKind& kind, const std::string& path,
                                std::function<void()> on_news);

  /// The address, or the folder's path.
  std::string place() const { return mirror ? mirror->address() : folder->path(); }
  /// Writes experiment.json anew.
  void set_settings(Json settings);
  /// Removes an experiment that could not begin: its name can be used again.
  void forget();
  /// Call it when everything is stored: removes the spool, if there is one, as train::remove_spool.
  void remove_spool();
  /// Removes the spool, if there is one, when nothing in it is needed any more.
  void discard_spool();
};

}  // namespace manta::tune
