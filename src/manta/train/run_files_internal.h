#pragma once

#include <map>
#include <string>
#include <vector>

namespace manta::train {

/// In a run folder whose run is at an address: checkpoints that wait to be stored, and which store
/// it is for.
inline constexpr const char* kUploads = ".upload";
inline constexpr const char* kStoreNote = ".store.json";

/// What a folder of results is of, and so which of its files are whose.
struct FolderKind {
  enum Trials {
    kNone,
    kWithCheckpoints,  ///< Each has a folder trial_00000, ... in it, for its checkpoints.
    kRuns,             ///< Each is a run, which has a folder and a place in the store of its own.
  };
  const char* what;      ///< For messages.
  const char* document;  ///< The file without which there is none, of at most kMostParamsBytes.
  Trials trials = kNone;
};
inline constexpr FolderKind kFolderOfRun{"run", "params.json"};
inline constexpr FolderKind kFolderOfFunctions{"experiment", "experiment.json",
                                               FolderKind::kWithCheckpoints};
inline constexpr FolderKind kFolderOfTrainers{"experiment", "experiment.json", FolderKind::kRuns};

/// Whether a path in a folder is of what the run itself keeps there: checkpoints, also unfinished
/// ones, params.json, the journal, the lock and the like, and what is below them. It is copied to a
/// store in ways of its own, or not at all. The same of an experiment and of its trials.
bool is_name_of_run(const std::string& path, const FolderKind& kind = kFolderOfRun);
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
OtherFiles other_files(const std::string& folder, const FolderKind& kind = kFolderOfRun);

}  // namespace manta::train
