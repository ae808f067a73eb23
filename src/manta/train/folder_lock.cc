#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "manta/base/error_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/folder_lock_internal.h"

namespace manta::train {
namespace {

constexpr size_t kLongestPid = 20;

// From the kernel's list of locks: "7: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF".
std::optional<long> holder_by_kernel(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return std::nullopt;
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, type, advisory, access, file;
    long pid = 0;
    if (!(words >> number >> type >> advisory >> access >> pid >> file)) continue;
    unsigned int device[2] = {};
    unsigned long inode = 0;
    if (type != "FLOCK" || pid <= 0 ||
        std::sscanf(file.c_str(), "%x:%x:%lu", &device[0], &device[1], &inode) != 3)
      continue;
    if (inode == info.st_ino && ::makedev(device[0], device[1]) == info.st_dev) return pid;
  }
  return std::nullopt;
}

// The holder as written in the file, for when the kernel does not know it: in another container, or
// on NFS.
std::string holder_by_file(int fd) {
  char text[kLongestPid];
  ssize_t got = ::pread(fd, text, sizeof text, 0);
  std::string pid;
  for (ssize_t i = 0; i < got && text[i] >= '0' && text[i] <= '9'; ++i) pid += text[i];
  return pid.empty() ? "another program" : "a program that was process " + pid + " where it began";
}

std::string describe(long pid) {
  std::string name, line;
  std::ifstream comm(str("/proc/", pid, "/comm"));
  std::getline(comm, name);
  bool stopped = false;
  std::string user;
  std::ifstream status(str("/proc/", pid, "/status"));
  while (std::getline(status, line)) {
    std::istringstream words(line);
    std::string key, value;
    words >> key >> value;
    if (key == "State:") stopped = value == "T" || value == "t";
    if (key == "Uid:") user = value;
  }
  std::string text = str("process ", pid);
  if (!name.empty()) text += str(" ('", name, "'");
  if (!name.empty() && !user.empty()) text += str(" of user ", user);
  if (!name.empty()) text += stopped ? ", which is stopped)" : ")";
  return text;
}

// Null if another holds it; then `holder` says who, as far as can be told.
UniqueFd try_lock(const std::string& folder, const std::string& name, std::string* holder) {
  std::string path = folder + "/" + name;
  UniqueFd fd = open_file(folder, name, O_RDWR | O_CREAT);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
    // Only a hint for a process that finds it locked.
    std::string pid = std::to_string(::getpid());
    struct stat info {};
    bool alone = ::fstat(fd.get(), &info) == 0 && info.st_nlink == 1;
    if (alone && ::ftruncate(fd.get(), 0) == 0)
      (void)!::pwrite(fd.get(), pid.data(), pid.size(), 0);
    return fd;
  }
  if (errno != EWOULDBLOCK) throw_file_errno(str("locking '", path, "'"));
  auto pid = holder_by_kernel(fd.get());
  *holder = pid ? describe(*pid) : holder_by_file(fd.get());
  return {};
}

}  // namespace

UniqueFd lock_folder(const std::string& folder) {
  std::string holder;
  if (UniqueFd fd = try_lock(folder, kLockFile, &holder)) return fd;
  throw Error(ErrorKind::kIo, str("the run folder '", folder, "' is in use by ", holder,
                                  ", which runs now; wait for its end, end it, or take another "
                                  "RunConfig::name"));
}

UniqueFd lock_file_of_run(const std::string& path) {
  std::filesystem::path file = std::filesystem::absolute(path);
  make_folders(file.parent_path());
  std::string holder;
  if (UniqueFd fd =
          try_lock(file.parent_path(), str(".", file.filename().string(), ".lock"), &holder))
    return fd;
  throw Error(ErrorKind::kInvalidArgument,
              str("'", path, "' is written for another run, of ", holder,
                  ": a file has one run at a time; give each run a tracker with a path of its own, "
                  "or none, which is a file in its run folder"));
}

UniqueFd lock_folder_of_run(const std::string& path) {
  make_folders(std::filesystem::absolute(path));
  std::string holder;
  if (UniqueFd fd = try_lock(path, ".tensorboard.lock", &holder)) return fd;
  throw Error(ErrorKind::kInvalidArgument,
              str("'", path, "' is written for another run, of ", holder,
                  ": TensorBoard takes what is in a folder for one run; give each run a logdir of "
                  "its own, or none, which is a folder in its run folder"));
}

bool is_still_locked(const std::string& folder, const UniqueFd& lock) {
  struct stat there {
  }, own{};
  if (::stat((folder + "/" + kLockFile).c_str(), &there) != 0)
    return errno != ENOENT && errno != ENOTDIR && errno != ESTALE;
  if (::fstat(lock.get(), &own) != 0) return true;
  return there.st_ino == own.st_ino && there.st_dev == own.st_dev;
}

}  // namespace manta::train
