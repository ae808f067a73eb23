#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "manta/train/run_folder_internal.h"
#include "manta/train/run_mirror_internal.h"
#include "manta/train/training_internal.h"

namespace manta::train {

/// Where a run is kept. A run whose RunConfig::storage_path is a path has a folder there. A run
/// whose storage_path is an address has a folder on this machine, in its spool, only while it goes
/// on, and a mirror that copies everything to the address. `restore` takes a folder in a spool like
/// any other.
struct RunStorage {
  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<RunMirror> mirror;  ///< Null without an address.

  /// Makes the run, or opens the one of `training.restore_from`. For an address, it fetches
  /// params.json and the journal into a new spool. Throws as RunFolder and RemoteRun, before any
  /// worker starts, and then leaves nothing behind. `on_news` as RunMirror.
  static RunStorage open(const Training& training, std::function<void()> on_news);

  /// The address, or the folder's path.
  std::string place() const { return mirror ? mirror->address() : folder->path(); }
  /// Removes a run that could not begin: its name can be used again.
  void forget();
  /// Call it when everything is stored: removes the spool, if there is one. Keeps it, and says so,
  /// if it has files that cannot be in a store.
  void remove_spool();
  /// Removes the spool, if there is one, when nothing in it is needed any more.
  void discard_spool();
};

/// The address of the run with this config; nothing if its storage_path is a path. Throws
/// Error(kInvalidArgument) if it cannot be one.
std::optional<RemoteAddress> run_address(const RunConfig& run);
/// Sets the config's `storage_path` and `name` from the address.
void set_run_address(RunConfig& run, const RemoteAddress& address);

}  // namespace manta::train
