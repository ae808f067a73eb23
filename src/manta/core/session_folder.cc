#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>
#include <string_view>

#include "manta/base/error_internal.h"
#include "manta/core/session_folder_internal.h"

namespace manta {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "manta-";
constexpr int kSuffixLength = 6;
constexpr time_t kSecondsToLock = 60;

// Folders are named manta-<pid>-XXXXXX. A folder is left over if its process is gone and no process
// holds its lock (a process of another container may have a pid that is free here).
void remove_leftovers(const fs::path& parent) {
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename();
    if (name.rfind(kPrefix, 0) != 0) continue;
    char* rest = nullptr;
    long pid = std::strtol(name.c_str() + 6, &rest, 10);
    if (pid <= 0 || *rest != '-' ||
        name.size() != static_cast<size_t>(rest - name.c_str()) + 1 + kSuffixLength)
      continue;
    struct stat info {};
    if (::lstat(it->path().c_str(), &info) != 0 || !S_ISDIR(info.st_mode) ||
        info.st_uid != ::geteuid())
      continue;
    if (::kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH) continue;
    UniqueFd lock(::open((it->path() / "lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    // Its process died before it could lock the folder, or runs in another container and is about
    // to lock it.
    if (!lock && errno == ENOENT && ::time(nullptr) - info.st_mtime > kSecondsToLock)
      ::rmdir(it->path().c_str());  // only if it is empty
    if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    std::error_code ignored;
    fs::remove_all(it->path(), ignored);
  }
}

std::string random_suffix() {
  static constexpr std::string_view kCharacters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::uniform_int_distribution<size_t> place(0, kCharacters.size() - 1);
  std::string suffix;
  for (int i = 0; i < kSuffixLength; ++i) suffix += kCharacters[place(random)];
  return suffix;
}

constexpr const char* kAdvice =
    "; set TMPDIR or InitOptions::temporary_folder to a folder that can be written";

}  // namespace

SessionFolder::SessionFolder(const std::string& parent) : SessionFolder(parent, kNotYet) { make(); }

SessionFolder::SessionFolder(const std::string& parent, NotYet) {
  std::error_code error;
  fs::path folder = parent.empty() ? fs::temp_directory_path(error) : fs::absolute(parent, error);
  if (!error && !parent.empty()) fs::create_directories(folder, error);
  if (error) {
    const char* variable = std::getenv("TMPDIR");
    std::string name = !parent.empty() ? parent : variable ? variable : "/tmp";
    throw Error(ErrorKind::kIo, str("the temporary folder '", name,
                                    "' cannot be used: ", error.message(), kAdvice));
  }
  remove_leftovers(folder);
  path_ = (folder / str(kPrefix, ::getpid(), "-", random_suffix())).string();
}

void SessionFolder::make() {
  if (::mkdir(path_.c_str(), 0700) != 0) {
    throw Error(ErrorKind::kIo,
                str("the temporary folder '", fs::path(path_).parent_path().string(),
                    "' cannot be used: ", errno_text(errno), kAdvice));
  }
  made_ = true;
  lock_ = UniqueFd(::open((path_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_ || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0)
    throw_errno(str("locking '", path_, "/lock'"));
}

SessionFolder::~SessionFolder() {
  std::error_code ignored;
  if (made_) fs::remove_all(path_, ignored);
}

std::shared_ptr<const std::string> new_temporary_folder(std::string_view kind) {
  auto all = own_temporary_folder();
  std::string path = str(all->path(), "/", kind, "-XXXXXX");
  if (!::mkdtemp(path.data())) throw_errno(str("making the temporary folder '", path, "'"));
  return {new std::string(path), [all](const std::string* folder) {
            std::error_code ignored;
            fs::remove_all(*folder, ignored);
            delete folder;
          }};
}

}  // namespace manta
