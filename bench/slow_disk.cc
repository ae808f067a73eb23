// A slow disk for any program, without root: LD_PRELOAD=libslow_disk.so. Writes to files below a
// folder called `slow-disk` take as long as at SLOW_DISK_MB_PER_S (10^6 bytes, 240 if unset), as if
// nothing was cached; so fsync has nothing left to do there. Other writes keep their speed. A
// process has one such disk: its threads wait for each other.

#include <dlfcn.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
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

using Clock = std::chrono::steady_clock;

// Returns when this many bytes, of a call that began at `begin`, would be on the disk, after the
// bytes that other threads of the process are writing.
void wait_for_disk(Clock::time_point begin, ssize_t bytes) {
  static std::mutex mutex;
  static Clock::time_point free_at;
  static const double rate = [] {
    const char* text = std::getenv("SLOW_DISK_MB_PER_S");
    return 1e6 * (text ? std::atof(text) : 240);
  }();
  std::chrono::duration<double> time(static_cast<double>(bytes) / rate);
  Clock::time_point done;
  {
    std::lock_guard lock(mutex);
    // Makes up for a little of the time that earlier calls slept too long, so that many small
    // writes take no longer than a large one.
    free_at = std::max(free_at, begin - std::chrono::milliseconds(50)) +
              std::chrono::duration_cast<Clock::duration>(time);
    done = free_at;
  }
  std::this_thread::sleep_until(done);
}

// Makes a call that writes to `fd`.
template <class Call>
ssize_t slowly(int fd, Call call) {
  if (!is_slow(fd)) return call();
  auto begin = Clock::now();
  ssize_t bytes = call();
  if (bytes > 0) wait_for_disk(begin, bytes);
  return bytes;
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  static auto* call = original<ssize_t(int, const void*, size_t)>("write");
  return slowly(fd, [=] { return call(fd, data, size); });
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
  return slowly(fd, [=] { return call(fd, parts, count); });
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  static auto* call = original<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return slowly(fd, [=] { return call(fd, data, size, at); });
}

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at) {
  static auto* call = original<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  return slowly(fd, [=] { return call(fd, data, size, at); });
}

ssize_t pwritev(int fd, const iovec* parts, int count, off_t at) {
  static auto* call = original<ssize_t(int, const iovec*, int, off_t)>("pwritev");
  return slowly(fd, [=] { return call(fd, parts, count, at); });
}

ssize_t sendfile(int to, int from, off_t* at, size_t size) {
  static auto* call = original<ssize_t(int, int, off_t*, size_t)>("sendfile");
  return slowly(to, [=] { return call(to, from, at, size); });
}

ssize_t sendfile64(int to, int from, off64_t* at, size_t size) {
  static auto* call = original<ssize_t(int, int, off64_t*, size_t)>("sendfile64");
  return slowly(to, [=] { return call(to, from, at, size); });
}

ssize_t copy_file_range(int from, off64_t* in, int to, off64_t* out, size_t size, unsigned flags) {
  static auto* call =
      original<ssize_t(int, off64_t*, int, off64_t*, size_t, unsigned)>("copy_file_range");
  return slowly(to, [=] { return call(from, in, to, out, size, flags); });
}

}  // extern "C"
