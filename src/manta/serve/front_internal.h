#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "manta/io/unix_listener_internal.h"
#include "manta/serve/deploy_spec_internal.h"
#include "manta/serve/http_server_internal.h"
#include "manta/serve/status.h"

namespace manta::serve {

class ServedDeployment;

/// The front: HTTP on one side, replicas on the other, a queue for each deployment between them.
/// All of it runs on one thread. It never reads bodies and runs no user code. Every call but those
/// marked otherwise is made with `loop().mutex` held, and so are callbacks.
class Front final : public HttpHandler {
 public:
  /// Begins to listen. Throws Error as HttpServer does. Call it, like `stop`, without the mutex.
  explicit Front(const HttpOptions& options);
  ~Front() override;
  Front(const Front&) = delete;

  EventLoop& loop() { return loop_; }
  const HttpOptions& http_options() const { return options_; }
  const std::string& url() const { return http_->url(); }

  /// Deploys, or replaces the deployment of that name. `done` is called once, with the error unless
  /// all replicas are healthy, at the latest after DeploymentOptions::deploy_timeout. Throws
  /// Error(kInvalidArgument) if the options are impossible or another deployment has the route.
  void deploy(DeploySpec spec, Done done);
  /// Takes its route away; `done` is called when its requests are answered and its replicas gone.
  /// Throws Error(kNotFound), which lists the existing names.
  void remove(const std::string& name, Done done);
  /// Takes no more connections, answers the requests that are there and removes every deployment.
  void drain(Done done);
  Status status() const;
  /// Ends everything at once. No callback is called after it.
  void stop();

  // For deployments.
  const std::string& replica_address() const { return replica_address_; }
  const std::string& replica_token() const { return replica_token_; }
  uint64_t expect_replica(ServedDeployment& deployment);
  void forget_replica(uint64_t number) { expected_.erase(number); }
  /// Forgets the deployment soon, and then calls these.
  void on_removed(ServedDeployment& deployment, std::vector<Done> done);
  /// Whether one more process with these resources would start now.
  static bool has_room(const Resources& resources);
  /// Runs `function` on the loop's thread, unless the front has stopped. Any thread may call.
  using Post = std::function<void(std::function<void()>)>;
  Post poster() const;

 private:
  void on_request(const std::shared_ptr<HttpConnection>& connection,
                  std::unique_ptr<HttpRequest> request) override;
  void on_gone(HttpConnection& connection) override;
  void on_refused(int status) override { ++refused_[status]; }
  bool respond_to_own(HttpConnection& connection, const RequestHead& head);
  void on_first_frame(const std::shared_ptr<AsyncChannel>& channel, Frame& frame);
  ServedDeployment* find_route(std::string_view path) const;
  std::string routes() const;
  void check_drained();

  const HttpOptions options_;
  EventLoop loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.context.get_executor()};
  const std::string replica_token_;
  const std::string replica_address_;
  std::unique_ptr<UnixListener> replicas_;
  std::unique_ptr<HttpServer> http_;
  std::map<std::string, std::unique_ptr<ServedDeployment>, std::less<>> deployments_;
  std::map<uint64_t, ServedDeployment*> by_number_;
  std::map<uint64_t, std::unique_ptr<ServedDeployment>> ending_;
  std::unordered_map<uint64_t, ServedDeployment*> expected_;  // by the number of the replica
  std::map<int, uint64_t> refused_;
  uint64_t next_deployment_ = 1, next_replica_ = 1;
  std::vector<Done> drained_;
  bool draining_ = false;
  struct Gate {
    std::mutex mutex;
    EventLoop* loop = nullptr;  // null once the front has stopped
  };
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::thread thread_;
};

}  // namespace manta::serve
