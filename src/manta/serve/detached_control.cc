// A front in a separate process: how it is started and joined, and what that process does.

#include <poll.h>
#include <sys/syscall.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "manta/base/interrupts_internal.h"
#include "manta/base/random_token_internal.h"
#include "manta/core/detached.h"
#include "manta/core/session_folder_internal.h"
#include "manta/io/channel_internal.h"
#include "manta/serve/control_internal.h"
#include "manta/serve/control_server_internal.h"
#include "manta/serve/serve_registry_internal.h"

namespace manta::serve {
namespace {

constexpr std::chrono::seconds kStartDeadline{60};
constexpr std::chrono::seconds kGreetingDeadline{10};
// The front keeps its own deadlines; this one is for a front that does not.
constexpr std::chrono::minutes kReplyDeadline{30};

/// The only message of a detached process to its starter.
struct Started {
  std::string token;
  bool has_name = true;  // false: another process has it
  bool ok = true;
  ErrorKind kind = ErrorKind::kIo;
  std::string why;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(token, has_name, ok, kind, why);
  }
};
using FromDetached = std::variant<Started>;

class DetachedControl final : public Control {
 public:
  /// Throws Error if nothing listens there.
  explicit DetachedControl(const FrontAddress& address)
      : channel_(connect_unix(address.socket_path)) {
    channel_.send([&](OutBuffer& out) {
      encode_message<ToFront>(out, Greeting{kControlProtocol, address.token});
    });
    Frame frame;
    if (!channel_.receive(&frame, Deadline::after(kGreetingDeadline))) {
      throw Error(
          ErrorKind::kInvalidArgument,
          "the detached serve process did not welcome this program; is it of another version "
          "of Manta?");
    }
    auto message = decode_message<FromFront>(frame);
    auto* welcome = std::get_if<Welcome>(&message);
    if (!welcome) throw Error(ErrorKind::kCorrupt, "the detached serve process said no welcome");
    welcome_ = *welcome;
  }

  const HttpOptions& http() const { return welcome_.http; }

  void deploy(const DeploySpec& spec) override {
    if (welcome_.build_id != program_build_id()) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("the detached serve process is of build ", to_hex(welcome_.build_id),
                      ", this program of build ", to_hex(program_build_id()),
                      ", so it does not have this program's predictor: end it with "
                      "serve::shutdown(), and start it again"));
    }
    ask(AskDeploy{spec});
  }
  void remove(const std::string& name) override { ask(AskRemove{name}); }
  Status status() override { return ask(AskStatus{}).status; }
  void shutdown() override { ask(AskShutdown{}); }
  bool is_detached() const override { return true; }

 private:
  template <class Request>
  Reply ask(const Request& request) {
    std::lock_guard lock(mutex_);
    Frame frame;
    if (!channel_.send([&](OutBuffer& out) { encode_message<ToFront>(out, request); }) ||
        !channel_.receive(&frame, Deadline::after(kReplyDeadline))) {
      throw Error(ErrorKind::kWorkerLost, "the detached serve process has ended");
    }
    auto message = decode_message<FromFront>(frame);
    auto* reply = std::get_if<Reply>(&message);
    if (!reply) throw Error(ErrorKind::kCorrupt, "the detached serve process gave no reply");
    if (!reply->ok) throw Error(reply->kind, reply->why);
    return *reply;
  }

  std::mutex mutex_;
  Channel channel_;
  Welcome welcome_;
};

// ---- In the detached process

void serve_until_told(Front& front, const ServeRegistry::Entry& entry,
                      const std::function<void()>& on_listening) {
  std::mutex mutex;
  std::condition_variable changed;
  bool told = false, drained = false;
  auto set = [&](bool* flag) {
    std::lock_guard lock(mutex);
    *flag = true;
    changed.notify_all();
  };
  InterruptListener interrupts([&] { set(&told); });
  FrontAddress address{current_session_folder() + "/serve-control.sock", random_token()};
  std::unique_ptr<ControlServer> server;
  {
    std::lock_guard lock(front.loop().mutex);
    server = std::make_unique<ControlServer>(front, address.socket_path, address.token,
                                             [&] { set(&drained); });
  }
  entry.publish(address);
  on_listening();
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return told || drained; });
  if (!drained) {
    lock.unlock();
    {
      std::lock_guard front_lock(front.loop().mutex);
      front.drain([&](const auto&) { set(&drained); });
    }
    lock.lock();
    changed.wait(lock, [&] { return drained; });
  }
  lock.unlock();
  front.stop();
}

void run_front(const std::string& name, const HttpOptions& http, const std::string& report_address,
               const std::string& report_token) {
  auto report = [&](Started started) {
    started.token = report_token;
    Channel channel(connect_unix(report_address));
    channel.send([&](OutBuffer& out) { encode_message<FromDetached>(out, started); });
  };
  try {
    auto entry = ServeRegistry(name).claim();
    if (!entry) {
      Started taken;
      taken.has_name = false;
      return report(taken);
    }
    Front front(http);
    serve_until_told(front, *entry, [&] { report({}); });
  } catch (const Error& error) {
    Started failed;
    failed.ok = false;
    failed.kind = error.kind();
    failed.why = error.what();
    report(failed);
  }
}

// ---- In the program that starts it

// Waits for the process's report, or for its end.
Started await_start(int listener, pid_t pid, const std::string& token) {
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  Deadline deadline = Deadline::after(kStartDeadline);
  while (!deadline.passed()) {
    pollfd entries[2] = {{listener, POLLIN, 0}, {process.get(), POLLIN, 0}};
    ::poll(entries, 2, deadline.poll_milliseconds());
    if (entries[0].revents != 0) {
      Channel channel(UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)), 64 << 10);
      Frame frame;
      if (!channel.receive(&frame, deadline)) continue;
      auto started = std::get<Started>(decode_message<FromDetached>(frame));
      if (same_secret(started.token, token)) return started;
    } else if (!process || entries[1].revents != 0) {
      throw Error(ErrorKind::kWorkerLost, "the detached serve process ended before it listened");
    }
  }
  throw Error(ErrorKind::kTimeout, str("the detached serve process did not listen within ",
                                       kStartDeadline.count(), " s"));
}

std::shared_ptr<Control> join(const ServeRegistry& registry, const StartOptions& options) {
  auto address = registry.find();
  if (!address) return nullptr;
  std::shared_ptr<DetachedControl> control;
  try {
    control = std::make_shared<DetachedControl>(*address);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) return nullptr;  // it has died
    throw;
  }
  HttpOptions asked = options.http;
  asked.token.clear();
  if (options.http != HttpOptions() && asked != control->http()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("serve::start: '", options.name, "' runs already, at ", control->status().url,
                    ", with other HTTP options than those given; leave them out to join it, choose "
                    "another StartOptions::name, or end it with serve::shutdown()"));
  }
  return control;
}

}  // namespace

std::shared_ptr<Control> start_detached(const StartOptions& options) {
  ServeRegistry registry(options.name);
  Deadline deadline = Deadline::after(kStartDeadline);
  while (true) {
    if (auto joined = join(registry, options)) return joined;
    std::string report_address = current_session_folder() + "/serve-start.sock";
    std::string report_token = random_token();
    ::unlink(report_address.c_str());
    UniqueFd listener = listen_unix(report_address);
    pid_t pid = run_detached({.name = "serve:" + options.name, .log_path = registry.log_path()},
                             run_front, options.name, options.http, report_address, report_token);
    Started started = await_start(listener.get(), pid, report_token);
    ::unlink(report_address.c_str());
    if (!started.ok) throw Error(started.kind, started.why);
    if (deadline.passed()) {
      throw Error(ErrorKind::kTimeout, str("serve::start: a process has the name '", options.name,
                                           "' and does not listen"));
    }
    // If the process did not get the name, another program is starting a front at this moment.
    if (!started.has_name) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace manta::serve
