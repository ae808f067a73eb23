#include <unistd.h>

#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/remote_run_internal.h"
#include "manta/tune/experiment_folder_internal.h"
#include "manta/tune/trial_json_internal.h"

namespace manta::tune {
namespace {

constexpr const char* kSettings = "/experiment.json";
constexpr const char* kJournal = "journal.jsonl";
// A space may nest, and its nodes lie two levels deep in the file.
constexpr JsonLimits kSettingsLimits{.bytes = size_t{64} << 20, .depth = 300};

std::string settings_text(const Json& settings) {
  return readable_text(settings, "what experiment.json keeps of param_space",
                       "search fewer values, or nest them less", kSettingsLimits, /*indent=*/1);
}

// A new experiment would take existing runs and checkpoints for those of its own trials, and go on
// with them.
void refuse_trials(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::string name = it->path().filename();
    if (!name.starts_with("trial_")) continue;
    throw Error(ErrorKind::kInvalidArgument,
                str("a new experiment cannot be in '", folder, "', which has '", name,
                    "' of another one, but no journal of it: take another RunConfig::name, or move "
                    "that away"));
  }
  if (error)
    throw Error(ErrorKind::kIo, str("reading the folder '", folder, "': ", error.message()));
}

}  // namespace

std::string settings_document(const std::string& path) {
  auto address = remote_address(path);
  return str("'", address ? address->child(kSettings + 1).text() : path + kSettings, "'");
}

Json read_settings(const std::string& experiment_folder) {
  if (auto address = remote_address(experiment_folder))
    return parse_json(train::RemoteRun::read_params(*address, train::kFolderOfFunctions),
                      settings_document(experiment_folder), kSettingsLimits);
  try {
    return train::read_json((experiment_folder.empty() ? "." : experiment_folder) + kSettings,
                            kSettingsLimits);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    throw Error(ErrorKind::kNotFound,
                str("'", experiment_folder,
                    "' is no folder of an experiment: it has no experiment.json. Give the folder "
                    "that ResultGrid::experiment_path or the experiment's summary named"));
  }
}

ExperimentFolder::ExperimentFolder(train::OwnedFolder folder, Json settings)
    : path_(std::move(folder.path)),
      lock_(std::move(folder.lock)),
      settings_(std::move(settings)),
      journal_(path_ + "/" + kJournal) {}

std::unique_ptr<ExperimentFolder> ExperimentFolder::create(const RunConfig& config,
                                                           const Json& settings) {
  std::string text = settings_text(settings);
  train::OwnedFolder folder = train::OwnedFolder::make(config, "tune", kJournal);
  refuse_trials(folder.path);
  train::replace_file(folder.path + kSettings, text);
  return std::unique_ptr<ExperimentFolder>(new ExperimentFolder(std::move(folder), settings));
}

std::unique_ptr<ExperimentFolder> ExperimentFolder::open(const std::string& path) {
  Json settings = read_settings(path);
  train::OwnedFolder folder = train::OwnedFolder::open(path, kJournal);
  return std::unique_ptr<ExperimentFolder>(
      new ExperimentFolder(std::move(folder), std::move(settings)));
}

bool ExperimentFolder::exists(const std::string& path) {
  if (auto address = remote_address(path))
    return train::RemoteRun::exists(*address, train::kFolderOfFunctions);
  std::error_code error;
  return std::filesystem::exists(path + kSettings, error) &&
         std::filesystem::exists(path + "/" + kJournal, error);
}

void ExperimentFolder::set_settings(Json settings) {
  train::replace_file(path_ + kSettings, settings_text(settings));
  settings_ = std::move(settings);
}

std::vector<train::JournalEvent> ExperimentFolder::take_events() {
  auto events = journal_.take_events();
  for (size_t line = 0; line < events.size(); ++line)
    check_event(str("line ", line + 1, " of '", path_, "/", kJournal, "'"), events[line].event,
                events[line].details);
  return events;
}

void ExperimentFolder::note(const Note& note) {
  journal_.append({train::seconds_since_epoch(), note.attempt, note.event, note.details});
}

void ExperimentFolder::forget() { ::unlink((path_ + "/" + kJournal).c_str()); }

}  // namespace manta::tune
