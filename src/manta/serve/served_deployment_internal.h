#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "manta/core/actor.h"
#include "manta/serve/front_internal.h"
#include "manta/serve/http_connection_internal.h"
#include "manta/serve/metrics_internal.h"
#include "manta/serve/replica_internal.h"
#include "manta/serve/replica_set_internal.h"
#include "manta/serve/request_queue_internal.h"

namespace manta::serve {

/// One deployment of the front. It carries out the decisions of its two policies: ReplicaSet for
/// processes, RequestQueue for requests. Its processes are in deployment_replicas.cc, its requests
/// in deployment_requests.cc.
class ServedDeployment {
 public:
  ServedDeployment(Front& front, std::string name, uint64_t number);
  ~ServedDeployment();
  ServedDeployment(const ServedDeployment&) = delete;

  const std::string& name() const { return name_; }
  uint64_t number() const { return number_; }
  /// The path where it answers; that of the deploy under way if none has succeeded yet.
  const std::string& route() const;
  bool serves_route() const { return ready_ && !removing_; }
  bool is_removing() const { return removing_; }

  void deploy(DeploySpec spec, Done done);
  void remove(Done done);
  DeploymentStatus status() const;
  void add_metrics(MetricsPage& page) const;
  bool is_serving() const { return replicas_.serving() > 0; }

  void on_request(const std::shared_ptr<HttpConnection>& connection,
                  std::unique_ptr<HttpRequest> request);
  void on_gone(RequestId id);
  /// Call it when the process with this number has connected.
  void on_joined(uint64_t number, bool for_health, int64_t pid,
                 const std::shared_ptr<AsyncChannel>& channel);

 private:
  struct Process {
    ReplicaId id = 0;
    uint64_t number = 0;
    int generation = 0;
    int64_t pid = 0;
    ActorHandle<Replica> actor;
    ObjectRef<void> run;
    std::shared_ptr<AsyncChannel> work, health;
    enum { kStarting, kIdle, kBusy } state = kStarting;
    bool draining = false, stopped = false;
    std::vector<RequestId> batch;
    Clock::time_point batch_sent, batch_deadline, ping_sent;
    bool ping_open = false;
    std::unique_ptr<EventLoop::Timer> deadline;  // to start, or to end
  };
  /// A lost process, until it is known how it ended.
  struct Ending {
    ActorHandle<Replica> actor;
    ObjectRef<void> run;
    std::vector<RequestId> condemned;  // not to be tried again
    std::unique_ptr<EventLoop::Timer> deadline;
  };
  struct Pending {
    std::shared_ptr<HttpConnection> connection;
    std::unique_ptr<HttpRequest> request;
    Clock::time_point arrived, deadline;
  };

  // deployment_replicas.cc
  const DeploymentOptions& options() const { return current().options; }
  const DeploySpec& current() const;
  void act();
  void start_replica(ReplicaId id, int generation);
  void drain_replica(ReplicaId id);
  void stop(Process& process);
  void kill_replica(ReplicaId id, const std::string& why);
  void on_frame(ReplicaId id, Frame& frame);
  void on_lost(ReplicaId id, const std::string& why);
  void on_exited(ReplicaId id);
  void on_update_ended(const UpdateEnded& ended);
  void on_deploy_late(int generation);
  void check_health();
  void arm_health();
  void check_removed();

  // deployment_requests.cc
  static QueuePolicy policy_of(const DeploymentOptions& options);
  void request_dispatch();
  void dispatch();
  void send_batch(Process& process, std::vector<RequestId> batch);
  void on_answers(Process& process, Frame& frame);
  void respond(RequestId id, HttpResponse response);
  void condemn(const std::vector<RequestId>& ids, const std::string& why);
  void expire();
  void arm_deadline();

  Front& front_;
  const std::string name_;
  const uint64_t number_;
  int generation_ = 0, serving_generation_ = 0;
  std::map<int, DeploySpec> specs_;  // by generation
  std::map<int, Done> deploys_;
  std::map<int, std::unique_ptr<EventLoop::Timer>> deploy_timers_;
  bool ready_ = false;  // a deploy has succeeded
  bool removing_ = false;
  std::vector<Done> removals_;
  std::unique_ptr<EventLoop::Timer> removal_timer_;

  ReplicaSet replicas_;
  ErrorKind failure_kind_ = ErrorKind::kWorkerLost;  // of the last failure of a replica
  std::map<ReplicaId, std::unique_ptr<Process>> processes_;
  std::map<ReplicaId, Ending> endings_;
  std::unique_ptr<EventLoop::Timer> decide_timer_, health_timer_;
  bool acting_ = false;

  RequestQueue queue_{QueuePolicy()};
  std::unordered_map<RequestId, Pending> pending_;
  RequestId next_request_;
  bool dispatch_posted_ = false;
  std::unique_ptr<EventLoop::Timer> deadline_timer_, batch_timer_;
  Clock::time_point deadline_armed_ = Clock::time_point::max();
  DeploymentMetrics metrics_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // for callbacks that may come too late
};

}  // namespace manta::serve
