#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/folder_lock_internal.h"
#include "manta/train/params_internal.h"
#include "manta/train/run_folder_internal.h"

namespace manta::train {
namespace {

namespace fs = std::filesystem;

std::string home() {
  const char* home = std::getenv("HOME");
  if (home && *home) return home;
  throw Error(ErrorKind::kInvalidArgument,
              "the folder for results is ~/manta_results, but HOME is not set; set it, or "
              "RunConfig::storage_path");
}

fs::path storage_folder(const std::string& path) {
  if (path.find("://") != std::string::npos)
    throw Error(ErrorKind::kInvalidArgument,
                str("RunConfig::storage_path must be a local folder (was '", path, "')"));
  fs::path folder = path;
  if (path.empty()) folder = home() + "/manta_results";
  if (path == "~" || path.rfind("~/", 0) == 0) folder = home() + path.substr(1);
  folder = fs::absolute(folder).lexically_normal();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw Error(ErrorKind::kIo, str("the folder '", folder.string(),
                                    "' for results cannot be made: ", error.message(),
                                    "; set RunConfig::storage_path to one that can be written"));
  return folder;
}

void check_run_name(const std::string& name) {
  if (name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos)
    throw Error(ErrorKind::kInvalidArgument,
                str("RunConfig::name must be the name of a folder, without '/' (was '", name,
                    "'); RunConfig::storage_path says where it is"));
}

// Makes the folder; false if it was there.
bool make_folder(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0) return true;
  if (errno == EEXIST) return false;
  throw_errno(str("creating the run folder '", path, "'"));
}

std::string make_default_folder(const fs::path& storage, const std::string& trainer, mode_t mode) {
  std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char name[64];
  std::strftime(name, sizeof name, "_%Y-%m-%d_%H-%M-%S", &local);
  std::string path = storage / (trainer + name);
  for (int number = 2; !make_folder(path, mode); ++number) {
    path = storage / str(trainer, name, "_", number);
  }
  return path;
}

mode_t mode_of(const std::string& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) throw_errno(str("looking at '", folder, "'"));
  return info.st_mode & 0777;
}

void check_owner(const std::string& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) throw_errno(str("looking at '", folder, "'"));
  if (info.st_uid == ::geteuid() || ::geteuid() == 0) return;
  throw Error(ErrorKind::kInvalidArgument,
              str("the run folder '", folder, "' belongs to user ", info.st_uid, ", this is user ",
                  ::geteuid(),
                  ": only its owner goes on with a run; copy the folder (cp -r) and "
                  "restore the copy"));
}

// Takes from a folder that was there what `mode` does not give.
void restrict_mode(const std::string& folder, mode_t mode) {
  mode_t old = mode_of(folder);
  if ((old & mode) != old && ::chmod(folder.c_str(), old & mode) != 0)
    throw_errno(str("setting the mode of '", folder, "'"));
}

std::string journal_in(const std::string& folder) { return folder + "/journal.jsonl"; }

bool has_run(const std::string& folder) {
  struct stat info {};
  return ::lstat(journal_in(folder).c_str(), &info) == 0;
}

// For the output of the run's processes. What they write to a link or a pipe would go elsewhere.
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

RunFolder::RunFolder(std::string path, UniqueFd lock, Json params)
    : path_(std::move(path)),
      lock_(std::move(lock)),
      params_(std::move(params)),
      journal_(journal_in(path_)),
      history_(train::history(journal_.take_events())) {}

std::unique_ptr<RunFolder> RunFolder::create(const RunConfig& config, const Json& params) {
  check_run_name(config.name);
  std::string text = params_text(params);
  fs::path storage = storage_folder(config.storage_path);
  auto mode = static_cast<mode_t>(config.folder_mode);
  std::string path = storage / config.name;
  if (config.name.empty()) {
    path = make_default_folder(storage, params.value("trainer", "run"), mode);
  } else {
    make_folder(path, mode);
  }
  check_owner(path);
  if (!has_run(path)) restrict_mode(path, mode);
  UniqueFd held = lock_folder(path);
  if (has_run(path))
    throw Error(ErrorKind::kInvalidArgument,
                str("there is a run in '", path,
                    "' already; take another RunConfig::name, or restore it to go on with it"));
  make_log_folder(path);
  replace_file(path + "/params.json", text);
  try {
    return std::unique_ptr<RunFolder>(new RunFolder(path, std::move(held), params));
  } catch (...) {
    ::unlink(journal_in(path).c_str());  // there is no run
    throw;
  }
}

std::unique_ptr<RunFolder> RunFolder::open(const std::string& path) {
  std::string folder = path.empty() ? path : fs::absolute(path).lexically_normal().string();
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  if (folder.empty() || !has_run(folder))
    throw Error(ErrorKind::kNotFound,
                str("there is no run in '", folder,
                    "': it has no journal.jsonl (expected a run folder, as in Result::path)"));
  check_owner(folder);
  UniqueFd held = lock_folder(folder);
  make_log_folder(folder);
  return std::unique_ptr<RunFolder>(new RunFolder(folder, std::move(held), read_params(folder)));
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
  replace_file(path_ + "/params.json", params_text(params));
  params_ = std::move(params);
}

void RunFolder::forget() { ::unlink(journal_in(path_).c_str()); }

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
