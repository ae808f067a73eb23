#include "process_tree.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>

namespace manta {

namespace fs = std::filesystem;

Program::Program(const std::string& path, std::vector<std::string> arguments,
                 const std::string& temporary_folder) {
  int in[2], out[2], errors[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0 ||
      ::pipe2(errors, O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe");
  }
  arguments.insert(arguments.begin(), path);
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::string variable = "TMPDIR=" + temporary_folder;
  std::vector<char*> environment{variable.data()};
  for (char** entry = environ; *entry; ++entry) {
    if (std::string_view(*entry).substr(0, 7) != "TMPDIR=") environment.push_back(*entry);
  }
  environment.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // also if the test itself is killed
    ::setpgid(0, 0);
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::dup2(errors[1], 2);
    ::execve(path.c_str(), argv.data(), environment.data());
    ::_exit(127);
  }
  ::setpgid(pid_, pid_);
  ::close(in[0]);
  ::close(out[1]);
  ::close(errors[1]);
  in_ = in[1];
  out_ = out[0];
  errors_ = errors[0];
}

Program::~Program() {
  if (!waited_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (int fd : {in_, out_, errors_}) ::close(fd);
}

std::string Program::read_line() {
  while (buffer_.find('\n') == std::string::npos) {
    char bytes[4096];
    ssize_t size = ::read(out_, bytes, sizeof(bytes));
    if (size <= 0) return std::exchange(buffer_, {});
    buffer_.append(bytes, static_cast<size_t>(size));
  }
  std::string line = buffer_.substr(0, buffer_.find('\n'));
  buffer_.erase(0, line.size() + 1);
  return line;
}

void Program::write_line(const std::string& line) {
  std::string text = line + "\n";
  if (::write(in_, text.data(), text.size()) < 0)
    throw std::runtime_error("the program reads no more");
}

std::string Program::read_errors() {
  std::string text;
  char bytes[4096];
  for (ssize_t size; (size = ::read(errors_, bytes, sizeof(bytes))) > 0;)
    text.append(bytes, static_cast<size_t>(size));
  return text;
}

void Program::send(int signal) { ::kill(pid_, signal); }
void Program::send_group(int signal) { ::kill(-pid_, signal); }

int Program::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  waited_ = true;
  return status;
}

namespace {

// Reads state and parent from /proc/<pid>/stat. False if there is no such process.
bool read_stat(pid_t pid, char* state, pid_t* parent) {
  int fd = ::open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char bytes[1024];
  ssize_t size = ::read(fd, bytes, sizeof(bytes));  // fails if the process has ended meanwhile
  ::close(fd);
  std::string text(bytes, size > 0 ? static_cast<size_t>(size) : 0);
  size_t end = text.rfind(')');
  if (end == std::string::npos) return false;
  return std::sscanf(text.c_str() + end + 1, " %c %d", state, parent) == 2;
}

int count_entries(const std::string& folder) {
  int count = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    ++count;
  return count;
}

}  // namespace

std::vector<pid_t> descendants(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    pid_t pid = std::atoi(entry.path().filename().c_str());
    char state;
    pid_t parent;
    if (pid > 0 && read_stat(pid, &state, &parent) && state != 'Z') children.emplace(parent, pid);
  }
  std::vector<pid_t> found{root};
  for (size_t i = 0; i < found.size(); ++i) {
    auto [begin, end] = children.equal_range(found[i]);
    for (auto it = begin; it != end; ++it) found.push_back(it->second);
  }
  found.erase(found.begin());
  return found;
}

bool is_running(pid_t pid) {
  char state;
  pid_t parent;
  return read_stat(pid, &state, &parent) && state != 'Z';
}

int count_open_files(pid_t pid) { return count_entries("/proc/" + std::to_string(pid) + "/fd"); }
int count_threads_of(pid_t pid) { return count_entries("/proc/" + std::to_string(pid) + "/task"); }

std::string test_program(const std::string& name) {
  return std::string(MANTA_TEST_PROGRAMS) + "/" + name;
}

}  // namespace manta
