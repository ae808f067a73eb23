#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/folder_lock_internal.h"
#include "manta/train/owned_folder_internal.h"

namespace manta::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOtherStorage =
    "; or set RunConfig::storage_path to a folder that can be written to";
constexpr const char* kCopyOfRun =
    "; make it writable, as whoever goes on with a run writes to its folder, or copy the folder "
    "(cp -r) and restore the copy";

std::string home() {
  const char* home = std::getenv("HOME");
  if (home && *home) return home;
  throw Error(ErrorKind::kInvalidArgument,
              "the folder for results is ~/manta_results, but HOME is not set; set it, or "
              "RunConfig::storage_path");
}

}  // namespace

std::string results_folder() { return home() + "/manta_results"; }

void check_run_name(const std::string& name) {
  if (name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos)
    throw Error(ErrorKind::kInvalidArgument,
                str("RunConfig::name must be the name of a folder, without '/' (was '", name,
                    "'); RunConfig::storage_path says where it is"));
}

std::string name_by_time(const std::string& kind) {
  std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char name[64];
  std::strftime(name, sizeof name, "_%Y-%m-%d_%H-%M-%S", &local);
  return kind + name;
}

namespace {

fs::path storage_folder(const std::string& path) {
  if (path.find("://") != std::string::npos)
    throw Error(ErrorKind::kInvalidArgument,
                str("storage_path must be a local folder here (was '", path, "')"));
  fs::path folder = path;
  if (path.empty()) folder = results_folder();
  if (path == "~" || path.rfind("~/", 0) == 0) folder = home() + path.substr(1);
  folder = fs::absolute(folder).lexically_normal();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw Error(ErrorKind::kIo,
                str("the folder '", folder.string(),
                    "' for results cannot be made: ", error.message(), kOtherStorage));
  return folder;
}

// Makes the folder; false if it was there.
bool make_folder(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0) return true;
  if (errno == EEXIST) return false;
  try {
    throw_file_errno(str("creating the run folder '", path, "'"));
  } catch (const Error& error) {
    throw Error(error.kind(), error.what() + std::string(kOtherStorage));
  }
}

std::string make_default_folder(const fs::path& storage, const std::string& trainer, mode_t mode) {
  std::string name = name_by_time(trainer);
  std::string path = storage / name;
  for (int number = 2; !make_folder(path, mode); ++number) {
    path = storage / str(name, "_", number);
  }
  return path;
}

mode_t mode_of(const std::string& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) throw_file_errno(str("looking at '", folder, "'"));
  return info.st_mode & 0777;
}

void check_owner(const std::string& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) throw_file_errno(str("looking at '", folder, "'"));
  if (info.st_uid == ::geteuid() || ::geteuid() == 0) return;
  throw Error(ErrorKind::kInvalidArgument,
              str("the run folder '", folder, "' belongs to user ", info.st_uid, ", this is user ",
                  ::geteuid(),
                  ": only its owner goes on with a run; copy the folder (cp -r) and "
                  "restore the copy"));
}

// Removes permissions from an existing folder that `mode` does not give.
void restrict_mode(const std::string& folder, mode_t mode) {
  mode_t old = mode_of(folder);
  if ((old & mode) != old && ::chmod(folder.c_str(), old & mode) != 0)
    throw_file_errno(str("setting the mode of '", folder, "'"));
}

// Otherwise the user would only get an error about the first file that cannot be written.
void check_writable(const std::string& folder, const char* advice) {
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK, AT_EACCESS) == 0) return;
  throw Error(ErrorKind::kIo, str("the run folder '", folder,
                                  "' cannot be written to: ", errno_text(errno), advice));
}

bool has_file(const std::string& folder, const std::string& name) {
  struct stat info {};
  return ::lstat((folder + "/" + name).c_str(), &info) == 0;
}

}  // namespace

OwnedFolder OwnedFolder::make(const RunConfig& config, const std::string& kind,
                              const std::string& taken) {
  check_run_name(config.name);
  fs::path storage = storage_folder(config.storage_path);
  auto mode = static_cast<mode_t>(config.folder_mode);
  std::string path = storage / config.name;
  if (config.name.empty()) {
    path = make_default_folder(storage, kind, mode);
  } else {
    make_folder(path, mode);
  }
  check_owner(path);
  check_writable(path, kOtherStorage);
  if (!has_file(path, taken)) restrict_mode(path, mode);
  UniqueFd held = lock_folder(path);
  if (has_file(path, taken))
    throw Error(ErrorKind::kInvalidArgument,
                str("there is a run in '", path,
                    "' already; take another RunConfig::name, or restore it to go on with it"));
  return {std::move(path), std::move(held)};
}

OwnedFolder OwnedFolder::open(const std::string& path, const std::string& taken) {
  std::string folder = path.empty() ? path : fs::absolute(path).lexically_normal().string();
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  if (folder.empty() || !has_file(folder, taken))
    throw Error(ErrorKind::kNotFound, str("there is no run in '", folder, "': it has no ", taken,
                                          " (expected a run folder, as in Result::path)"));
  check_owner(folder);
  check_writable(folder, kCopyOfRun);
  UniqueFd held = lock_folder(folder);
  return {std::move(folder), std::move(held)};
}

}  // namespace manta::train
