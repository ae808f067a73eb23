// A slow disk for any program, without root: LD_PRELOAD=libslow_disk.so. Writes to files below a
// folder called `slow-disk` take as long as at SLOW_DISK_MB_PER_S (10^6 bytes, 240 if unset), as if
// nothing was cached; so fsync has nothing left to do there. What else is written is as fast as it
// is. One disk for a process: its threads wait for each other.

#include <dlfcn.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

namespace {

template <class F>
F* original(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

bool is_slow(int fd) {
  char link[64], path[PATH_MAX];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t size = ::readlink(link, path, sizeof(path) - 1);
  if (size <= 0) return false;
  path[size] = '\0';
  return std::strstr(path, "/slow-disk/") != nullptr;
}

// Waits as long as `bytes` take, after what other threads of the process are writing.
ssize_t written(int fd, ssize_t bytes) {
  using Clock = std::chrono::steady_clock;
  static std::mutex mutex;
  static Clock::time_point free_at;
  if (bytes < 4096 || !is_slow(fd)) return bytes;
  const char* rate = std::getenv("SLOW_DISK_MB_PER_S");
  std::chrono::duration<double> time(static_cast<double>(bytes) /
                                     (1e6 * (rate ? std::atof(rate) : 240)));
  Clock::time_point done;
  {
    std::lock_guard lock(mutex);
    free_at = std::max(free_at, Clock::now()) + std::chrono::duration_cast<Clock::duration>(time);
    done = free_at;
  }
  std::this_thread::sleep_until(done);
  return bytes;
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  static auto* call = original<ssize_t(int, const void*, size_t)>("write");
  return written(fd, call(fd, data, size));
}

int fsync(int fd) {
  static auto* call = original<int(int)>("fsync");
  return is_slow(fd) ? 0 : call(fd);
}

int fdatasync(int fd) {
  static auto* call = original<int(int)>("fdatasync");
  return is_slow(fd) ? 0 : call(fd);
}

ssize_t writev(int fd, const iovec* parts, int count) {
  static auto* call = original<ssize_t(int, const iovec*, int)>("writev");
  return written(fd, call(fd, parts, count));
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  static auto* call = original<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return written(fd, call(fd, data, size, at));
}

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at) {
  static auto* call = original<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  return written(fd, call(fd, data, size, at));
}

ssize_t pwritev(int fd, const iovec* parts, int count, off_t at) {
  static auto* call = original<ssize_t(int, const iovec*, int, off_t)>("pwritev");
  return written(fd, call(fd, parts, count, at));
}

ssize_t sendfile(int to, int from, off_t* at, size_t size) {
  static auto* call = original<ssize_t(int, int, off_t*, size_t)>("sendfile");
  return written(to, call(to, from, at, size));
}

ssize_t sendfile64(int to, int from, off64_t* at, size_t size) {
  static auto* call = original<ssize_t(int, int, off64_t*, size_t)>("sendfile64");
  return written(to, call(to, from, at, size));
}

ssize_t copy_file_range(int from, off64_t* in, int to, off64_t* out, size_t size, unsigned flags) {
  static auto* call =
      original<ssize_t(int, off64_t*, int, off64_t*, size_t, unsigned)>("copy_file_range");
  return written(to, call(from, in, to, out, size, flags));
}

}  // extern "C"
