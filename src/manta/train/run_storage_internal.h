#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "manta/train/run_folder_internal.h"
#include "manta/train/run_mirror_internal.h"
#include "manta/train/training_internal.h"

namespace manta::train {

/// Where a run is kept. A run whose RunConfig::storage_path is a path has a folder there. One whose
/// storage_path is an address has a folder of this machine only while it goes on, its spool, and a
/// mirror that brings everything to the address. `restore` takes a folder in a spool like any
/// other.
struct RunStorage {
  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<RunMirror> mirror;  ///< Null without an address.

  /// Makes the run, or opens the one that `training.restore_from` says. Of an address, params.json
  /// and the journal are fetched into a new spool. Throws as RunFolder and RemoteRun, before any
  /// worker starts; leaves nothing behind then. `on_news` as RunMirror.
  static RunStorage open(const Training& training, std::function<void()> on_news);

  /// The address, or the folder's path.
  std::string place() const { return mirror ? mirror->address() : folder->path(); }
  /// Of a run that could not begin: its name can be used again.
  void forget();
  /// Everything is stored: removes the spool, if there is one. Keeps it, and says so, if it has
  /// what cannot be in a store.
  void remove_spool();
  /// Nothing in the spool, if there is one, is needed any more.
  void discard_spool();
};

/// The address of the run with this config; nothing if its storage_path is a path. Throws
/// Error(kInvalidArgument) if it cannot be one.
std::optional<RemoteAddress> run_address(const RunConfig& run);
/// Its config's `storage_path` and `name`, the other way round.
void set_run_address(RunConfig& run, const RemoteAddress& address);

}  // namespace manta::train
