#include <sys/socket.h>

#include <iostream>
#include <thread>

#include "manta/base/start_thread_internal.h"
#include "manta/io/channel_internal.h"
#include "manta/io/eager_receiver_internal.h"
#include "manta/serve/replica_internal.h"
#include "manta/serve/work_internal.h"

namespace manta::serve {
namespace {

// The front answers a replica that joins at once.
constexpr std::chrono::seconds kLoadDeadline{60};

// Answers health checks while it lives.
class HealthThread {
 public:
  explicit HealthThread(UniqueFd socket) : channel_(std::move(socket)) {
    thread_ = start_thread("a replica's thread for health checks", [this] {
      try {
        Frame frame;
        while (channel_.receive(&frame, Deadline::never())) {
          channel_.send([](OutBuffer& out) { put_frame(out, ReplicaFrame::kPong); });
        }
      } catch (const std::exception& error) {
        std::cerr << "the connection for health checks failed: " << error.what() << std::endl;
      }
    });
  }
  ~HealthThread() {
    ::shutdown(channel_.fd(), SHUT_RDWR);
    thread_.join();
  }
  HealthThread(const HealthThread&) = delete;

  Channel& channel() { return channel_; }

 private:
  Channel channel_;
  std::thread thread_;
};

}  // namespace

void Replica::run(const std::string& address, const std::string& token, uint64_t id) {
  Channel channel(connect_unix(address));
  HealthThread health(connect_unix(address));
  auto join = [&](Channel& each, bool for_health) {
    each.send([&](OutBuffer& out) {
      put_frame(out, ReplicaFrame::kJoin, Join{token, id, for_health, ::getpid()});
    });
  };
  join(health.channel(), true);
  join(channel, false);
  Frame frame;
  if (!channel.receive(&frame, Deadline::after(kLoadDeadline))) return;  // not wanted any more
  auto load = read_frame<Load>(frame, ReplicaFrame::kLoad);
  std::unique_ptr<Predictor> predictor;
  HttpAdapter adapter = nullptr;
  Loaded loaded;
  try {
    adapter = resolve_adapter(load.adapter);
    predictor = load.factory.make(Checkpoint::from_uri(load.checkpoint));
    loaded.ok = true;
  } catch (const Error& error) {
    loaded = {false, error.kind(), error.what()};
  } catch (const std::exception& error) {
    loaded = {false, ErrorKind::kUserCode, error.what()};
  }
  if (!loaded.ok) std::cerr << "the model cannot be loaded: " << loaded.why << std::endl;
  channel.send([&](OutBuffer& out) { put_frame(out, ReplicaFrame::kLoaded, loaded); });
  if (!loaded.ok) return;

  auto predict = [&](const Batch& rows) { return predictor->predict(rows); };
  EagerReceiver requests(channel);
  while (requests.receive(&frame)) {
    if (frame.type == static_cast<uint16_t>(ReplicaFrame::kStop)) break;
    std::vector<std::shared_ptr<SharedMemory>> memory;
    auto answers = answer_requests(read_work(frame, &memory), adapter, predict, load.max_rows);
    if (!channel.send([&](OutBuffer& out) { put_answers(out, answers); })) break;
  }
}

}  // namespace manta::serve
