#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "manta/base/error.h"
#include "manta/train/file_internal.h"
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
bool make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return true;
  if (errno == EEXIST) return false;
  throw_errno(str("creating the run folder '", path, "'"));
}

std::string make_default_folder(const fs::path& storage, const std::string& trainer) {
  std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char name[64];
  std::strftime(name, sizeof name, "_%Y-%m-%d_%H-%M-%S", &local);
  std::string path = storage / (trainer + name);
  for (int number = 2; !make_folder(path); ++number) {
    path = storage / str(trainer, name, "_", number);
  }
  return path;
}

UniqueFd lock(const std::string& folder) {
  std::string path = folder + "/.lock";
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!fd) throw_errno(str("opening '", path, "'"));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) throw_errno(str("locking '", path, "'"));
  throw Error(ErrorKind::kIo, str("the run folder '", folder,
                                  "' is in use by another program that runs now; wait for its end, "
                                  "or take another RunConfig::name"));
}

std::string journal_in(const std::string& folder) { return folder + "/journal.jsonl"; }

bool has_run(const std::string& folder) { return ::access(journal_in(folder).c_str(), F_OK) == 0; }

}  // namespace

RunFolder::RunFolder(std::string path, UniqueFd lock, Json params)
    : path_(std::move(path)),
      lock_(std::move(lock)),
      params_(std::move(params)),
      journal_(journal_in(path_)),
      history_(train::history(read_journal(journal_in(path_)))),
      results_(path_) {
  results_.rewrite(history_.reports());
}

std::unique_ptr<RunFolder> RunFolder::create(const RunConfig& config, const Json& params) {
  check_run_name(config.name);
  fs::path storage = storage_folder(config.storage_path);
  std::string path = storage / config.name;
  if (config.name.empty()) {
    path = make_default_folder(storage, params.value("trainer", "run"));
  } else {
    make_folder(path);
  }
  UniqueFd held = lock(path);
  if (has_run(path))
    throw Error(ErrorKind::kInvalidArgument,
                str("there is a run in '", path,
                    "' already; take another RunConfig::name, or restore it to go on with it"));
  replace_file(path + "/params.json", to_text(params, 1) + "\n");
  return std::unique_ptr<RunFolder>(new RunFolder(path, std::move(held), params));
}

std::unique_ptr<RunFolder> RunFolder::open(const std::string& path) {
  std::string folder = fs::absolute(path).lexically_normal();
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  if (!has_run(folder))
    throw Error(ErrorKind::kNotFound,
                str("there is no run in '", folder,
                    "': it has no journal.jsonl (expected a run folder, as in Result::path)"));
  UniqueFd held = lock(folder);
  std::string params_path = folder + "/params.json";
  Json params = Json::parse(read_text(params_path), nullptr, false);
  if (params.is_discarded())
    throw Error(ErrorKind::kCorrupt, str("'", params_path, "' is not JSON"));
  return std::unique_ptr<RunFolder>(new RunFolder(folder, std::move(held), std::move(params)));
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

void RunFolder::append(JournalEvent event) {
  journal_.append(event);
  history_.apply(event);
}

void RunFolder::note(const Note& note) {
  size_t reports = history_.reports().size();
  append({seconds_since_epoch(), note.attempt, note.event, note.details});
  if (history_.reports().size() < reports) results_.rewrite(history_.reports());
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
  results_.append(history_.reports());
}

}  // namespace manta::train
