#include "manta/io/tls_listener_internal.h"

namespace manta {
namespace {

class TlsAcceptor final : public Acceptor {
 public:
  TlsAcceptor(const TlsKey& key, UniqueFd socket, const TcpOptions& options)
      : key_(key), socket_(std::move(socket)), options_(options) {}

  int fd() const override { return socket_.get(); }
  std::string source(int socket) const override { return peer_address(socket).host; }
  std::unique_ptr<Handshake> greet(UniqueFd socket) const override {
    set_tcp_options(socket.get(), options_);
    return std::make_unique<TlsHandshake>(key_, std::move(socket), TlsHandshake::kAccepts);
  }

 private:
  const TlsKey key_;
  const UniqueFd socket_;
  const TcpOptions options_;
};

}  // namespace

TlsListener::TlsListener(EventLoop& loop, const TlsKey& key, UniqueFd socket, OnFirst on_first,
                         const TlsListenerOptions& options)
    : TlsListener(loop, std::make_unique<TlsAcceptor>(key, std::move(socket), options.tcp),
                  options.limits, std::move(on_first)) {}

TlsListener::TlsListener(EventLoop& loop, std::unique_ptr<Acceptor> acceptor,
                         const AdmissionLimits& limits, OnFirst on_first)
    : Listener(loop, std::move(acceptor), limits, std::move(on_first)),
      address_(local_address(listening_fd())) {}

}  // namespace manta
