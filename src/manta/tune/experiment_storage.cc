#include "manta/train/run_storage_internal.h"
#include "manta/tune/experiment_storage_internal.h"

namespace manta::tune {

ExperimentStorage ExperimentStorage::create(const train::FolderKind& kind, const RunConfig& run,
                                            const Json& settings, std::function<void()> on_news) {
  ExperimentStorage storage;
  RunConfig named = run;
  if (named.name.empty()) named.name = train::name_by_time("tune");
  auto make = [&](const RunConfig& config) {
    storage.folder = ExperimentFolder::create(config, settings);
    return storage.folder->path();
  };
  if (auto address = train::run_address(named)) {
    storage.mirror =
        train::mirror_of_new(kind, *address, run.name.empty(), run, make, std::move(on_news));
  } else {
    make(run);
  }
  return storage;
}

ExperimentStorage ExperimentStorage::open(const train::FolderKind& kind, const std::string& path,
                                          std::function<void()> on_news) {
  ExperimentStorage storage;
  auto open = [&](const std::string& folder) { storage.folder = ExperimentFolder::open(folder); };
  if (auto address = remote_address(path)) {
    storage.mirror = train::mirror_of_stored(kind, *address, open, std::move(on_news));
  } else {
    open(path);
    storage.mirror = train::mirror_of_spool(kind, storage.folder->path(), std::move(on_news));
  }
  return storage;
}

void ExperimentStorage::set_settings(Json settings) {
  folder->set_settings(std::move(settings));
  if (mirror) mirror->params_changed();
}

void ExperimentStorage::forget() {
  folder->forget();
  if (mirror) mirror->forget();
  discard_spool();
}

void ExperimentStorage::remove_spool() {
  if (mirror) train::remove_spool(folder->path(), *mirror);
}

void ExperimentStorage::discard_spool() {
  if (mirror) train::discard_spool(folder->path(), *mirror);
}

}  // namespace manta::tune
