#pragma once

#include <map>
#include <string>
#include <vector>

namespace manta::train {

/// In a run folder whose run is at an address: the folder of checkpoints that wait to be stored,
/// and the file that says which store it is for.
inline constexpr const char* kUploads = ".upload";
inline constexpr const char* kStoreNote = ".store.json";

/// The kind of a folder of results, which decides what each of its files belongs to.
struct FolderKind {
  enum Trials {
    kNone,
    kWithCheckpoints,  ///< Each trial has a folder trial_00000, ... in it, for its checkpoints.
    kRuns,             ///< Each trial is a run, with its own folder and its own place in the store.
  };
  const char* what;      ///< For messages.
  const char* document;  ///< The file that such a folder must have, of at most kMostParamsBytes.
  Trials trials = kNone;
};
inline constexpr FolderKind kFolderOfRun{"run", "params.json"};
inline constexpr FolderKind kFolderOfFunctions{"experiment", "experiment.json",
                                               FolderKind::kWithCheckpoints};
inline constexpr FolderKind kFolderOfTrainers{"experiment", "experiment.json", FolderKind::kRuns};

/// Whether a path in a folder belongs to the files that the run itself keeps there: checkpoints,
/// also unfinished ones, params.json, the journal, the lock and the like, and everything below
/// them. These are copied to a store in special ways, or not at all. The same holds for an
/// experiment and its trials.
bool is_name_of_run(const std::string& path, const FolderKind& kind = kFolderOfRun);
/// Whether a store uses this name at the top of a run for something else.
bool is_name_of_store(const std::string& name);

/// The files that loops, callbacks and trackers wrote to a run folder, with any name: results,
/// logs.
struct OtherFiles {
  std::vector<std::string> names = {};  ///< Relative to the folder, with '/'.
  /// Files that cannot be in a store, and why: symbolic links, which are not followed, and files
  /// with a name that the store needs itself.
  std::map<std::string, std::string> left_out = {};
};
/// Throws std::filesystem::filesystem_error if the folder cannot be read.
OtherFiles other_files(const std::string& folder, const FolderKind& kind = kFolderOfRun);

}  // namespace manta::train
