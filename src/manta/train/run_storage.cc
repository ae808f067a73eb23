#include "manta/base/error_internal.h"
#include "manta/train/owned_folder_internal.h"
#include "manta/train/params_internal.h"
#include "manta/train/run_storage_internal.h"
#include "manta/train/spool_internal.h"

namespace manta::train {

std::optional<RemoteAddress> run_address(const RunConfig& run) {
  auto storage = remote_address(run.storage_path);
  if (!storage) return std::nullopt;
  if (storage->scheme == "s3" && storage->authority.empty())
    throw Error(ErrorKind::kInvalidArgument, str("RunConfig::storage_path: '", run.storage_path,
                                                 "' has no bucket; give s3://bucket/folder"));
  check_run_name(run.name);
  if (run.name.find_first_of("?#%") != std::string::npos)
    throw Error(ErrorKind::kInvalidArgument,
                str("RunConfig::name becomes part of an address, and cannot have '?', '#' or '%' "
                    "in it (was '",
                    run.name, "')"));
  return storage->child(run.name);
}

void set_run_address(RunConfig& run, const RemoteAddress& address) {
  size_t slash = address.path.rfind('/');
  run.name = slash == std::string::npos ? address.path : address.path.substr(slash + 1);
  if (run.name.empty())
    throw Error(ErrorKind::kInvalidArgument,
                str("'", address.text(), "' is no address of a run: it has no path"));
  check_run_name(run.name);
  run.storage_path =
      address.with_path(slash == std::string::npos ? "" : address.path.substr(0, slash)).text();
}

RunStorage RunStorage::open(const Training& training, std::function<void()> on_news) {
  RunStorage storage;
  if (training.restore_from.empty()) {
    RunConfig run = training.run;
    if (run.name.empty()) run.name = name_by_time(training.trainer);
    auto make = [&](const RunConfig& config) {
      storage.folder = RunFolder::create(config, params_of(training));
      return storage.folder->path();
    };
    if (auto address = run_address(run)) {
      storage.mirror = mirror_of_new(kFolderOfRun, *address, training.run.name.empty(),
                                     training.run, make, std::move(on_news));
    } else {
      make(training.run);
    }
    return storage;
  }
  auto open = [&](const std::string& path) { storage.folder = RunFolder::open(path); };
  if (auto address = remote_address(training.restore_from)) {
    storage.mirror = mirror_of_stored(kFolderOfRun, *address, open, std::move(on_news));
  } else {
    open(training.restore_from);
    storage.mirror = mirror_of_spool(kFolderOfRun, storage.folder->path(), std::move(on_news));
  }
  return storage;
}

void RunStorage::forget() {
  folder->forget();
  if (mirror) mirror->forget();
  discard_spool();
}

void RunStorage::discard_spool() {
  if (mirror) train::discard_spool(folder->path(), *mirror);
}

void RunStorage::remove_spool() {
  if (mirror) train::remove_spool(folder->path(), *mirror);
}

}  // namespace manta::train
