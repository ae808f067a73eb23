#include "runs.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace manta::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t kMostSaid = 64 << 20;

// The destructor closes the socket.
struct Socket {
  int fd;
  ~Socket() {
    if (fd >= 0) ::close(fd);
  }
};

// The process of a folder manta-<pid>-XXXXXX; 0 if the name has another form.
long pid_of(const std::string& name) {
  constexpr const char* kPrefix = "manta-";
  if (name.rfind(kPrefix, 0) != 0) return 0;
  char* rest = nullptr;
  long pid = std::strtol(name.c_str() + std::strlen(kPrefix), &rest, 10);
  return pid > 0 && *rest == '-' && std::strlen(rest) == 7 ? pid : 0;
}

bool wait_readable(int fd, Clock::time_point until) {
  while (true) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd entry{fd, POLLIN, 0};
    int ready = ::poll(&entry, 1, static_cast<int>(std::max<int64_t>(0, left)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

// Reads everything that the process sends, until it closes.
FoundRun::State ask(const std::string& path, Clock::time_point until, std::string* said) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return FoundRun::kNotYet;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  Socket socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (::connect(socket.fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return errno == EAGAIN ? FoundRun::kSilent : FoundRun::kNotYet;
  }
  char buffer[1 << 16];
  while (wait_readable(socket.fd, until)) {
    ssize_t size = ::read(socket.fd, buffer, sizeof(buffer));
    if (size == 0) return FoundRun::kAnswered;
    if (size < 0) return FoundRun::kNotYet;
    said->append(buffer, static_cast<size_t>(size));
    if (said->size() > kMostSaid) break;
  }
  return FoundRun::kSilent;
}

}  // namespace

std::vector<FoundRun> find_runs(const std::string& folder, std::chrono::milliseconds timeout) {
  std::vector<FoundRun> runs;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    FoundRun run;
    run.folder = it->path();
    run.pid = pid_of(it->path().filename());
    struct stat info {};
    bool is_ours = run.pid > 0 && ::lstat(run.folder.c_str(), &info) == 0 &&
                   S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
    if (is_ours) runs.push_back(std::move(run));
  }
  if (error) {
    throw std::runtime_error("the folder '" + folder + "' cannot be read: " + error.message());
  }
  std::sort(runs.begin(), runs.end(),
            [](const FoundRun& a, const FoundRun& b) { return a.folder < b.folder; });
  for (FoundRun& run : runs) {
    std::string said;
    run.state = ask(run.folder + "/status", Clock::now() + timeout, &said);
    if (run.state == FoundRun::kAnswered) {
      run.status = nlohmann::json::parse(said, nullptr, /*allow_exceptions=*/false);
      if (!run.status.is_object()) run.state = FoundRun::kNotYet;
    }
    bool is_gone = ::kill(static_cast<pid_t>(run.pid), 0) != 0 && errno == ESRCH;
    if (run.state != FoundRun::kAnswered && is_gone) run.state = FoundRun::kEnded;
  }
  return runs;
}

}  // namespace manta::cli
