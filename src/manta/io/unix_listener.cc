#include <poll.h>
#include <unistd.h>

#include "manta/io/channel_internal.h"
#include "manta/io/unix_listener_internal.h"
#include "manta/io/unix_transport_internal.h"

namespace manta {
namespace {

// There is no handshake: a process that may open the socket's file may send frames.
class UnixHandshake final : public Handshake {
 public:
  explicit UnixHandshake(UniqueFd socket) : socket_(std::move(socket)) {}
  int fd() const override { return socket_.get(); }
  bool step() override { return true; }
  short waits_for() const override { return POLLIN; }
  std::unique_ptr<Transport> finish() override {
    return std::make_unique<UnixTransport>(std::move(socket_));
  }

 private:
  UniqueFd socket_;
};

class UnixAcceptor final : public Acceptor {
 public:
  explicit UnixAcceptor(const std::string& path) : path_(path), socket_(listen_unix(path)) {}
  ~UnixAcceptor() override { ::unlink(path_.c_str()); }
  int fd() const override { return socket_.get(); }
  std::string source(int) const override { return ""; }
  std::unique_ptr<Handshake> greet(UniqueFd socket) const override {
    return std::make_unique<UnixHandshake>(std::move(socket));
  }

 private:
  const std::string path_;
  const UniqueFd socket_;
};

constexpr AdmissionLimits kUnixLimits{.max_strangers = 64, .max_per_source = 64, .max_waiting = 0};

}  // namespace

UnixListener::UnixListener(EventLoop& loop, const std::string& path, OnFirst on_first)
    : Listener(loop, std::make_unique<UnixAcceptor>(path), kUnixLimits, std::move(on_first)) {}

}  // namespace manta
