#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/folder_lock_internal.h"
#include "manta/train/owned_folder_internal.h"
#include "manta/train/params_internal.h"
#include "manta/train/run_folder_internal.h"
#include "manta/train/staging_internal.h"

namespace manta::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJournal = "journal.jsonl";

std::string journal_in(const std::string& folder) { return folder + "/" + kJournal; }

// A new run would take existing checkpoints for its own, and remove them for better ones.
void refuse_checkpoints(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename();
    if (!checkpoint_index(name) && !is_partial_checkpoint(name) && name != kStaging) continue;
    throw Error(ErrorKind::kInvalidArgument,
                str("a new run cannot be in '", folder, "', which has '", name,
                    "' of another run, but no journal of it: take another RunConfig::name, or move "
                    "that away (a run can begin with it as resume_from_checkpoint)"));
  }
  if (error)
    throw Error(ErrorKind::kIo, str("reading the folder '", folder, "': ", error.message()));
}

// The folder for the output of the run's processes. Output to a link or a pipe would go elsewhere.
void make_log_folder(const std::string& folder) {
  std::string logs = folder + "/logs";
  if (!has_folder(folder, "logs")) make_folder_anew(logs);
  std::error_code error;
  for (fs::directory_iterator it(logs, error), end; !error && it != end; it.increment(error)) {
    struct stat info {};
    bool exists = ::lstat(it->path().c_str(), &info) == 0;
    if (exists && S_ISREG(info.st_mode) && info.st_nlink == 1) continue;
    throw Error(ErrorKind::kCorrupt, str("'", it->path().string(),
                                         "' is not a file of its own; remove it, as output of the "
                                         "run's processes would go through it"));
  }
  if (error) throw Error(ErrorKind::kIo, str("reading the folder '", logs, "': ", error.message()));
}

}  // namespace

RunFolder::RunFolder(OwnedFolder folder, Json params)
    : path_(std::move(folder.path)),
      lock_(std::move(folder.lock)),
      params_(std::move(params)),
      journal_(journal_in(path_)),
      history_(train::history(journal_.take_events())) {}

std::unique_ptr<RunFolder> RunFolder::create(const RunConfig& config, const Json& params) {
  std::string text = params_text(params);
  std::string kind = params.is_object() ? params.value("trainer", "run") : "run";
  OwnedFolder folder = OwnedFolder::make(config, kind, kJournal);
  refuse_checkpoints(folder.path);
  make_log_folder(folder.path);
  replace_file(folder.path + "/params.json", text);
  std::string journal = journal_in(folder.path);
  try {
    return std::unique_ptr<RunFolder>(new RunFolder(std::move(folder), params));
  } catch (...) {
    ::unlink(journal.c_str());  // there is no run
    throw;
  }
}

std::unique_ptr<RunFolder> RunFolder::open(const std::string& path) {
  OwnedFolder folder = OwnedFolder::open(path, kJournal);
  make_log_folder(folder.path);
  Json params = read_params(folder.path);
  return std::unique_ptr<RunFolder>(new RunFolder(std::move(folder), std::move(params)));
}

Controller::Start RunFolder::resume(const std::optional<Checkpoint>& checkpoint) {
  Controller::Start start;
  if (checkpoint) {
    const Json& manifest = checkpoint->manifest();
    int64_t index = manifest.value("report", int64_t{0});
    if (history_.reports().empty() || history_.reports().back().index < index)
      append_report(manifest.value("time", 0.0), manifest.value("attempt", 0), index,
                    checkpoint->metrics(), manifest.value("positions", Json()),
                    fs::path(checkpoint->path()).filename());
    start.checkpoint = index;
    start.next_report = index + 1;
  }
  start.attempt = history_.last_attempt() + 1;
  return start;
}

void RunFolder::set_params(Json params) {
  replace_file(path_ + "/params.json", params_text(params), is_durable_);
  params_ = std::move(params);
}

void RunFolder::make_durable() {
  sync_to_disk(path_ + "/params.json");
  journal_.sync();
  sync_to_disk(path_);
  sync_to_disk(fs::path(path_).parent_path());
  is_durable_ = true;
}

void RunFolder::sync() {
  if (is_durable_) journal_.sync();
}

void RunFolder::forget() { ::unlink(journal_in(path_).c_str()); }

bool RunFolder::is_gone() const {
  return !is_still_locked(path_, lock_) ||
         (::access(journal_in(path_).c_str(), F_OK) != 0 && errno == ENOENT);
}

void RunFolder::append(JournalEvent event) {
  journal_.append(event);
  history_.apply(event);
}

void RunFolder::note(const Note& note) {
  append({seconds_since_epoch(), note.attempt, note.event, note.details});
}

void RunFolder::report(int attempt, int64_t index, const Json& metrics, const Json& positions,
                       const std::string& checkpoint) {
  append_report(seconds_since_epoch(), attempt, index, metrics, positions, checkpoint);
}

void RunFolder::append_report(double time, int attempt, int64_t index, const Json& metrics,
                              const Json& positions, const std::string& checkpoint) {
  Json details = {{"index", index},
                  {"metrics", metrics},
                  {"positions", positions},
                  {"checkpoint", checkpoint.empty() ? Json() : Json(checkpoint)}};
  append({time, attempt, kReport, std::move(details)});
}

}  // namespace manta::train
