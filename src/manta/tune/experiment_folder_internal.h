#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manta/base/json.h"
#include "manta/train/journal_internal.h"
#include "manta/train/owned_folder_internal.h"
#include "manta/tune/controller_internal.h"

namespace manta::tune {

/// The folder of one experiment: experiment.json describes the search, and journal.jsonl has one
/// line for each note of the controller; trials have folders in it. Only one driver at a time may
/// use it. Its content is untrusted input, like that of a run folder.
class ExperimentFolder {
 public:
  /// Makes <storage_path>/<name>. Throws as OwnedFolder::make.
  static std::unique_ptr<ExperimentFolder> create(const RunConfig& config, const Json& settings);
  /// Opens the folder of an experiment whose driver has ended. Throws Error(kNotFound) if there is
  /// none in it, Error(kCorrupt) naming the file and what is wrong; as OwnedFolder::open.
  static std::unique_ptr<ExperimentFolder> open(const std::string& path);
  /// `path` may be an address. Throws Error(kInvalidArgument) if access to that is refused,
  /// Error(kIo).
  static bool exists(const std::string& path);

  const std::string& path() const { return path_; }  ///< Absolute.
  const Json& settings() const { return settings_; }
  /// Writes experiment.json anew, in one step.
  void set_settings(Json settings);
  /// The checked events from before it was opened; call it once.
  std::vector<train::JournalEvent> take_events();
  /// Throws Error(kIo).
  void note(const Note& note);
  /// Removes an experiment that could not begin: its name can be used again.
  void forget();

 private:
  ExperimentFolder(train::OwnedFolder folder, Json settings);

  const std::string path_;
  UniqueFd lock_;
  Json settings_;
  train::Journal journal_;
};

/// experiment.json of a folder, or at an address. Throws Error(kNotFound) if there is none,
/// Error(kCorrupt); of an address, as train::RemoteRun.
Json read_settings(const std::string& experiment_folder);
/// The name of experiment.json in messages.
std::string settings_document(const std::string& path);

}  // namespace manta::tune
