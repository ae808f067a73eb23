#pragma once

#include <map>
#include <string>
#include <vector>

namespace manta::train {

/// In a run folder whose run is at an address: checkpoints that wait to be stored, and which store
/// it is for.
inline constexpr const char* kUploads = ".upload";
inline constexpr const char* kStoreNote = ".store.json";

/// Whether a name at the top of a run folder is of what the run itself keeps there: checkpoints,
/// also unfinished ones, params.json, the journal, the lock and the like. It is copied to a store
/// in ways of its own, or not at all.
bool is_name_of_run(const std::string& name);
/// Whether a store has something else of that name at the top of a run.
bool is_name_of_store(const std::string& name);

/// What loops, callbacks and trackers wrote to a run folder, whatever its name: results, logs.
struct OtherFiles {
  std::vector<std::string> names = {};  ///< Relative to the folder, with '/'.
  /// What cannot be in a store, and why: symbolic links, which are not followed, and what has a
  /// name that the store needs itself.
  std::map<std::string, std::string> left_out = {};
};
/// Throws std::filesystem::filesystem_error if the folder cannot be read.
OtherFiles other_files(const std::string& run_folder);

}  // namespace manta::train
