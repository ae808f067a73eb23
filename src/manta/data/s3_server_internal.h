#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/io/unique_fd.h"

namespace manta::data {

/// For tests: an S3 server in a separate process, which ends with this object, or with this
/// process. It has one bucket, "bucket". Needs what scripts/setup.sh installs.
class S3Server {
 public:
  /// `enter`: a command that runs the rest of its command line elsewhere, as on another host.
  /// `tell` cannot reach a server there.
  explicit S3Server(std::vector<std::string> enter = {}) {
    // Otherwise the library would ask the machine's metadata service and read the user's own files.
    ::setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    ::setenv("AWS_CONFIG_FILE", "/nonexistent", 1);
    ::setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1);
    ::setenv("AWS_ACCESS_KEY_ID", "user", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) throw_errno("making pipes");
    UniqueFd child_in(in[0]), child_out(out[1]);
    from_server_ = UniqueFd(out[0]);
    to_server_ = UniqueFd(in[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, child_in.get(), 0);
    ::posix_spawn_file_actions_adddup2(&actions, child_out.get(), 1);
    std::vector<std::string> words = std::move(enter);
    words.insert(words.end(), {MANTA_COUNTERPARTS, MANTA_S3_SERVER, "bucket"});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int error = ::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
      throw Error(ErrorKind::kIo, str("starting ", words[0], ": ", errno_text(error)));
    child_out.reset();
    port_ = read_line();
    if (port_.empty()) throw Error(ErrorKind::kIo, "the server of S3 did not start");
  }
  ~S3Server() {
    to_server_.reset();
    ::waitpid(pid_, nullptr, 0);
  }
  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;

  /// s3://bucket/<path>?... for this server.
  std::string address(const std::string& path, const std::string& authority = "bucket") const {
    return str("s3://", authority, "/", path, "?region=us-east-1&scheme=http",
               "&endpoint_override=127.0.0.1:", port_);
  }
  /// "/-/fault?cut=1", and so on: see tests/s3_server.py. Returns the server's answer.
  std::string tell(const std::string& path) const {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(port_)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      throw_errno("connecting to the server of S3");
    }
    std::string request = str("GET ", path, " HTTP/1.0\r\n\r\n"), answer;
    if (::write(socket.get(), request.data(), request.size()) < 0) throw_errno("asking it");
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(socket.get(), buffer, sizeof(buffer))) > 0;) {
      answer.append(buffer, static_cast<size_t>(n));
    }
    return answer;
  }

  /// Closes its port and cuts all connections; `come_back` opens it again, with what it had.
  void go_down() { order("down"); }
  void come_back() { order("up"); }
  /// Whether there is such an object.
  bool has(const std::string& path) { return answer_to("has " + path) == "yes"; }

 private:
  void order(const std::string& line) {
    if (answer_to(line) != "done") throw Error(ErrorKind::kIo, "the server of S3 has ended");
  }
  std::string answer_to(const std::string& line) {
    std::string text = line + "\n";
    if (::write(to_server_.get(), text.data(), text.size()) < 0) throw_errno("telling the server");
    return read_line();
  }
  std::string read_line() {
    std::string line;
    char c = 0;
    while (::read(from_server_.get(), &c, 1) == 1 && c != '\n') line += c;
    return line;
  }

  pid_t pid_ = -1;
  UniqueFd to_server_, from_server_;
  std::string port_;
};

}  // namespace manta::data
