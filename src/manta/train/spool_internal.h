#pragma once

#include <functional>
#include <memory>
#include <string>

#include "manta/train/config.h"
#include "manta/train/run_files_internal.h"
#include "manta/train/run_mirror_internal.h"

/// The folder, on this machine, of something that is stored at an address: a run, or an experiment.
///
/// A spool is ~/manta_results/.remote/<random>, for this user only; the folder is <name> in it, and
/// says in .store.json which address it is for, and as whom. So whoever restores that folder stores
/// what the store lacks, unless somebody else took over meanwhile. (Only below .remote: what
/// another folder says of an address is nobody's word.)
namespace manta::train {

/// A new, empty spool; whoever makes it removes it. Throws Error(kIo).
std::string make_spool();

/// Makes something new at an address; if that is taken and `may_rename`, at one with a number after
/// it. `make` gets the config with a spool as storage_path, makes the folder and returns its path.
/// Throws as RemoteRun::create, RunMirror and `make`; then nothing is left at the address or here.
std::unique_ptr<RunMirror> mirror_of_new(const FolderKind& kind, RemoteAddress address,
                                         bool may_rename, const RunConfig& config,
                                         const std::function<std::string(const RunConfig&)>& make,
                                         std::function<void()> on_news);
/// Takes over what is at an address, and fetches all but checkpoints into a folder in a new spool.
/// `open` gets that folder's path, before anything is stored from it. Throws as
/// RemoteRun::take_over, RunMirror and `open`; then nothing is left here.
std::unique_ptr<RunMirror> mirror_of_stored(const FolderKind& kind, const RemoteAddress& address,
                                            const std::function<void(const std::string&)>& open,
                                            std::function<void()> on_news);
/// Takes over what a folder is of, from the driver that left it; null if it is not in a spool. The
/// folder is ahead of the store: see RunMirror. Throws as RemoteRun::take_over.
std::unique_ptr<RunMirror> mirror_of_spool(const FolderKind& kind, const std::string& folder,
                                           std::function<void()> on_news);

/// Nothing in the spool of this folder is needed any more.
void discard_spool(const std::string& folder, RunMirror& mirror);
/// Everything is stored: removes the spool. Keeps it, and says so, if it has what cannot be in a
/// store.
void remove_spool(const std::string& folder, RunMirror& mirror);

}  // namespace manta::train
