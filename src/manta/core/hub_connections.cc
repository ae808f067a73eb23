#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/random_token_internal.h"
#include "manta/core/hub_internal.h"

namespace manta {
namespace {

constexpr size_t kMaxHello = 4096;  // a stranger cannot make the driver allocate more
constexpr std::chrono::seconds kExitDeadline{
    5};  // from the end of a channel to the end of its process
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr int kMaxAcceptFailures = 20;  // a pause apart
// Connections that have not said what they are, beside those of processes that are expected.
constexpr size_t kMaxStrangers = 64;

}  // namespace

// More connections than that wait until others have joined or were closed.
bool Hub::hears_enough_strangers() {
  std::erase_if(unjoined_, [](const auto& each) {
    auto channel = each.lock();
    return !channel || channel->broken();
  });
  return unjoined_.size() >= kMaxStrangers + joining_;
}

void Hub::accept() {
  if (hears_enough_strangers()) {
    accept_timer_ = loop_.after(kAcceptPause, [this] { accept(); });
    return;
  }
  acceptor_.async_accept(
      [this](boost::system::error_code error, boost::asio::local::stream_protocol::socket socket) {
        std::lock_guard lock(loop_.mutex);
        if (!acceptor_.is_open() || stopping_) return;
        if (!error) {
          accept_failures_ = 0;
          on_connection(UniqueFd(socket.release()));
          return accept();
        }
        // Too many open files, most likely: again when some may have been closed.
        if (++accept_failures_ == kMaxAcceptFailures) {
          accept_failures_ = 0;
          std::string why = "cannot connect to the driver: " + error.message() +
                            "; raise the limit of open files (ulimit -n)";
          give_up_on_workers("a process " + why);
          for (auto& [index, peer] : peers_) {
            if (index == 0 || peer->channel) continue;
            auto actor = actors_.find(peer->actor);
            if (actor != actors_.end()) actor->second->killed = why;
            kill_process(*peer);
          }
        }
        accept_timer_ = loop_.after(kAcceptPause, [this] { accept(); });
      });
}

void Hub::on_connection(UniqueFd socket) {
  auto channel = std::make_shared<AsyncChannel>(loop_, std::move(socket), kMaxHello,
                                                /*takes_fds=*/false);
  std::weak_ptr<AsyncChannel> weak = channel;
  unjoined_.push_back(weak);
  std::shared_ptr<EventLoop::Timer> timer = loop_.after(options_.hello_deadline, [weak] {
    auto channel = weak.lock();
    if (!channel) return;
    log_warning("a connection that did not say what it is was closed");
    channel->close();
  });
  channel->start(
      [this, weak, timer](Frame& frame) {
        auto channel = weak.lock();
        ToHub message = decode_message<ToHub>(frame);
        auto* hello = std::get_if<Hello>(&message);
        if (!hello) throw Error(ErrorKind::kCorrupt, "its first message is no greeting");
        on_hello(channel, *hello);
      },
      [timer](const std::string& why) {
        if (!why.empty()) log_warning("a connection was refused: " + why);
      });
}

void Hub::on_hello(const std::shared_ptr<AsyncChannel>& channel, const Hello& hello) {
  auto reject = [&](const std::string& why) {
    log_warning("a connection was refused: " + why);
    encode_message<FromHub>(channel->out(), Rejected{why});  // without keys, as all that is refused
    channel->flush_and_close();
  };
  if (!same_secret(hello.token, options_.address.token)) return reject("wrong token");
  if (hello.build_id != program_build_id()) {
    return reject(str("the process is of build ", to_hex(hello.build_id), ", this run is of build ",
                      to_hex(program_build_id()), "; run the same binary everywhere"));
  }
  auto found = peer_of_process_.find(hello.process);
  if (found == peer_of_process_.end() || peers_.at(found->second)->channel) {
    return reject(str("no process ", hello.process, " is expected"));
  }
  Peer& peer = *peers_.at(found->second);
  peer.deadline.reset();
  peer.channel = channel;
  --joining_;
  channel->trust();
  std::erase_if(unjoined_, [&](const auto& each) { return each.lock() == channel; });
  uint32_t index = peer.index;
  channel->start([this, index](Frame& frame) { on_peer_frame(index, frame); },
                 [this, index](const std::string& why) {
                   auto found = peers_.find(index);
                   if (found == peers_.end()) return;
                   Peer& peer = *found->second;
                   if (!why.empty()) {
                     log_error(str("process ", peer.name, ": ", why));
                     return kill_process(peer);
                   }
                   forget_idle(peer);
                   if (peer.exit) return finish_exit(*peer.exit);
                   // Its end is on its way; a process that only closed its channel is helped along.
                   peer.deadline = kill_after(kExitDeadline, index);
                 });
  NodeEntry& node = nodes_.at(peer.node);
  tell(peer, Welcome{peer.index, most_of_a_node(), peer.node, node.info.host});
  if (peer.actor == 0) {
    --node.starting;
    start_failures_ = 0;
    make_idle(peer);
  } else {
    auto create = tasks_.find(peer.actor);  // gone if nobody wants the actor any more
    if (create == tasks_.end() || !send_run(*create->second, peer)) kill_process(peer);
  }
  request_dispatch();
}

void Hub::on_peer_frame(uint32_t index, Frame& frame) {
  auto found = peers_.find(index);
  if (found == peers_.end()) return;
  Peer& peer = *found->second;
  if (peer.node == 0) {
    handle(peer, decode_message<ToHub>(frame));
  } else if (frame.type == kPassedOn) {
    if (!peer.passing.empty()) peer.passing.pop_front();
    return;
  } else {
    auto keys = take_keys(frame);
    handle(peer, decode_message<ToHub>(frame, std::move(keys)));
  }
  request_dispatch();
}

void Hub::on_process_connected(const std::shared_ptr<AsyncChannel>& channel, const Hello& hello) {
  if (!stopping_) on_hello(channel, hello);
}

void Hub::on_output(const std::string& lines) { logs_->show_lines(lines); }

}  // namespace manta
