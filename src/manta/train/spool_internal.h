#pragma once

#include <functional>
#include <memory>
#include <string>

#include "manta/train/config.h"
#include "manta/train/run_files_internal.h"
#include "manta/train/run_mirror_internal.h"

/// The folder on this machine of a run or an experiment that is stored at an address.
///
/// A spool is ~/manta_results/.remote/<random>, for this user only; the folder is <name> in it, and
/// its .store.json has the address and the owner's token. So a process that restores that folder
/// stores what the store lacks, unless another process took over meanwhile. (Only below .remote:
/// such a file in any other folder is not trusted.)
namespace manta::train {

/// Makes a new, empty spool; the caller must remove it. Throws Error(kIo).
std::string make_spool();

/// Makes a run or experiment at an address; if that is taken and `may_rename`, at an address with a
/// number after it. `make` gets the config with a spool as storage_path, makes the folder and
/// returns its path. Throws as RemoteRun::create, RunMirror and `make`; then nothing is left at the
/// address or here.
std::unique_ptr<RunMirror> mirror_of_new(const FolderKind& kind, RemoteAddress address,
                                         bool may_rename, const RunConfig& config,
                                         const std::function<std::string(const RunConfig&)>& make,
                                         std::function<void()> on_news);
/// Takes over the run or experiment at an address, and fetches everything but checkpoints into a
/// folder in a new spool. `open` gets that folder's path, before anything is stored from it. Throws
/// as RemoteRun::take_over, RunMirror and `open`; then nothing is left here.
std::unique_ptr<RunMirror> mirror_of_stored(const FolderKind& kind, const RemoteAddress& address,
                                            const std::function<void(const std::string&)>& open,
                                            std::function<void()> on_news);
/// Takes over the run or experiment of a folder, from the driver that left it; null if the folder
/// is not in a spool. The folder is ahead of the store: see RunMirror. Throws as
/// RemoteRun::take_over.
std::unique_ptr<RunMirror> mirror_of_spool(const FolderKind& kind, const std::string& folder,
                                           std::function<void()> on_news);

/// Removes the spool of this folder when nothing in it is needed any more.
void discard_spool(const std::string& folder, RunMirror& mirror);
/// Call it when everything is stored: removes the spool. Keeps it, and says so, if it has files
/// that cannot be in a store.
void remove_spool(const std::string& folder, RunMirror& mirror);

}  // namespace manta::train
