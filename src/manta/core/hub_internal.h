#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/client_internal.h"
#include "manta/core/engine_internal.h"
#include "manta/core/ledger_internal.h"
#include "manta/core/located_memory_internal.h"
#include "manta/core/node_supply_internal.h"
#include "manta/core/object_table_internal.h"
#include "manta/core/run_address_internal.h"
#include "manta/core/status_socket_internal.h"
#include "manta/core/task_queue_internal.h"
#include "manta/core/worker_log_internal.h"
#include "manta/io/async_channel_internal.h"
#include "manta/io/loop_turn_internal.h"

namespace manta {

struct HubOptions {
  MakeEngine make_engine;
  RunAddress address;
  std::string session_folder;
  std::string log_folder;
  bool log_to_driver = true;
  bool fold_repeated_lines = true;
  std::chrono::milliseconds actor_grace{1000};
  /// How long a connection may take to identify itself.
  std::chrono::milliseconds hello_deadline{10'000};
};

/// The centre of a run, in the driver: it knows every process, task, actor and object, and decides
/// what runs where. Its own thread listens to the processes; the driver's threads act on it
/// directly. One lock guards all of it. Messages from each process arrive in order.
///
/// Its parts: hub.cc (start and end), hub_messages.cc (incoming messages), hub_connections.cc (who
/// connects), hub_processes.cc (which processes there are), hub_nodes.cc and hub_supply.cc (on
/// which machines), hub_memory.cc (where large values are), hub_tasks.cc, hub_pipelines.cc and
/// hub_actors.cc (what runs), hub_reasons.cc (why something waits), hub_status.cc (what
/// `manta status` shows).
class Hub final : public EngineEvents {
 public:
  explicit Hub(HubOptions options);
  ~Hub() override;

  /// Handles a message from the driver before it returns, unless the hub's thread is at work and
  /// nobody can see whether it is handled now or a moment later: then that thread does it next, and
  /// the caller need not wait for it. In order for each thread. Any thread may call.
  void post(ToHub&& message);
  /// Where answers to the driver go. Call it before the first `post`.
  void set_client(std::shared_ptr<Client> client);
  /// Of each resource, what the node that has most of it has.
  Resources most();
  /// Ends every process and the thread.
  void stop();

  /// For a thread of the driver's that waits for something short, one at a time: it hears the
  /// processes itself instead of the hub's thread (see LoopTurn). begin_turn and take_turn, which
  /// the thread calls again and again, return false where more than one thing is at work, which
  /// must not wait for a thread that may leave any time. Then, or after end_turn, the turn is over.
  bool begin_turn();
  bool take_turn();
  /// `others_follow`: as LoopTurn::leave.
  void end_turn(bool others_follow) { turn_.leave(others_follow); }

 private:
  struct Actor;

  /// A machine of the run.
  struct NodeEntry {
    NodeInfo info;
    bool draining = false;
    std::vector<uint32_t> idle;  // pool workers, the latest used last
    int starting = 0;            // pool workers
    int wanted = 0;              // of these, for what could start if it had a process
    int wanted_of_shape = 0;
    std::optional<Clock::time_point> idle_since = {};  // nothing runs there, and nothing is kept
  };

  /// Pool workers that run short tasks of the same need and may be sent more of them ahead.
  struct Pipeline {
    Need need;
    std::list<uint32_t> open;  // the next in turn first
  };

  struct Held {
    FromHub message;
    size_t missing = 0;  // so many transfers
    std::string failed;  // why one of them did
  };

  /// A process of the run. Index 0 is the driver.
  struct Peer {
    uint32_t index = 0;
    NodeId node = 0;
    ProcessId process = 0;
    pid_t pid = 0;
    std::string name;
    std::unique_ptr<WorkerLog> log;  // null on another node
    std::string log_path;
    std::shared_ptr<AsyncChannel> channel;  // null until it has said hello
    std::deque<ObjectId> assigned;          // sent to it and not done; the first ones run
    size_t concurrency = 1;                 // how many of them at once
    std::optional<Grant> grant;
    bool counts_as_free = false;  // runs a task that asks for nothing; see kMaxFreeTasks
    bool blocked = false;
    bool progressed = false;  // since the last look at pipelines
    bool recalled = false;
    bool ending = false;
    bool doomed = false;  // a kill is on its way: it gets no more work
    /// For a pool worker that has run something: the devices that it may see. CUDA reads them once
    /// per process, so the worker only runs tasks that were granted the same devices.
    std::optional<std::vector<int>> gpu_ids;
    std::string stack;     // of its crash
    int64_t log_end = -1;  // of what it wrote itself; -1: all
    Clock::time_point idle_since;
    ObjectId actor = 0;  // 0 for a pool worker
    Pipeline* pipeline = nullptr;
    std::list<uint32_t>::iterator in_pipeline;
    std::unordered_map<ObjectId, int> refs;
    std::unique_ptr<EventLoop::Timer> deadline;
    /// What waits until its node has the memory that it speaks of, in order.
    std::deque<Held> held;
    uint64_t next_held = 0;  // how many have been
    /// Memory of messages that its node has yet to pass on to it.
    std::deque<std::vector<std::shared_ptr<LocatedMemory>>> passing;
    std::string log_tail;             // of a process of another node
    std::optional<ProcessExit> exit;  // known, but what it said before is on its way
  };

  struct Task {
    TaskSpec spec;
    uint32_t submitter = 0;
    enum State { kWaiting, kQueued, kSent } state = kWaiting;
    size_t open_dependencies = 0;
    int attempts = 0;  // begun
    uint32_t peer = 0;
    bool cancelled = false;  // its object has ended; the process has yet to notice
  };

  struct Actor {
    ObjectId id = 0;
    TaskSpec create;
    /// kEnding: killed, and will be restarted once its process has ended.
    enum State { kPending, kStarting, kAlive, kEnding, kDead } state = kPending;
    uint32_t peer = 0;
    bool has_process() const { return state == kStarting || state == kAlive || state == kEnding; }
    int restarts_left = 0;
    std::string killed;                                // why, if somebody asked for it
    std::map<uint32_t, std::deque<ObjectId>> waiting;  // calls not sent, by caller
    ErrorInfo death;
    /// The actors that it starts with, all or none, itself included; empty once they have started.
    /// Only the first is queued.
    std::vector<ObjectId> group;
    std::vector<Request> gang;  // what all of them ask for; of the first only
  };

  // hub.cc
  void run();
  void fail(const std::exception& error);
  bool is_little_at_work();
  void help();
  bool put_off(ToHub& message);
  void handle_put_off();
  void request_dispatch();
  void on_dispatch_due();
  void dispatch();
  Clock::duration dispatch_pause() const;

  // hub_messages.cc
  void handle(Peer& peer, ToHub&& message);
  void on(Peer& peer, Hello message);
  void on(Peer& peer, Submit&& message);
  void on(Peer& peer, Put message);
  void on(Peer& peer, Fetch message);
  void on(Peer& peer, Watch message);
  void on(Peer& peer, AddRef message);
  void on(Peer& peer, Release message);
  void on(Peer& peer, TaskDone&& message);
  void on(Peer& peer, Blocked message);
  void on(Peer& peer, Unblocked message);
  void on(Peer& peer, Returned message);
  void on(Peer& peer, CancelTask message);
  void on(Peer& peer, CreateNamed message);
  void on(Peer& peer, CreateGroup message);
  void on(Peer& peer, KillActor message);
  void on(Peer& peer, FindActor message);
  void on(Peer& peer, AskWhy message);
  void on(Peer& peer, AskNodes message);
  void on(Peer& peer, AskPossible message);
  void on(Peer& peer, StartDetached message);
  void hold(Peer& peer, ObjectId id);
  void check_new(const Peer& peer, ObjectId id) const;
  void check_spec(const TaskSpec& spec) const;
  void tell(Peer& peer, FromHub message);
  void answer(Peer& peer, uint64_t request, std::string text = {}, uint64_t id = 0);
  void refuse(Peer& peer, uint64_t request, ErrorKind kind, std::string why);

  // hub_processes.cc
  bool hears_enough_strangers();
  void accept();
  void on_connection(UniqueFd socket);
  void on_hello(const std::shared_ptr<AsyncChannel>& channel, const Hello& hello);
  void on_peer_frame(uint32_t index, Frame& frame);
  void on_process_connected(const std::shared_ptr<AsyncChannel>& channel,
                            const Hello& hello) override;
  void on_output(const std::string& lines) override;
  void finish_exit(ProcessExit exit);
  /// Adds a process to be started; it runs after `start_processes`.
  Peer& add_process(NodeId node, const std::string& name, ObjectId actor,
                    std::string log_path = {});
  /// All or none.
  void start_processes(const std::vector<Peer*>& gang);
  void on_started(ProcessId process, pid_t pid) override;
  void on_start_failed(const std::vector<ProcessId>& gang, const std::string& why) override;
  void on_exited(const ProcessExit& exit) override;
  void kill_process(Peer& peer);
  std::unique_ptr<EventLoop::Timer> kill_after(std::chrono::milliseconds delay, uint32_t index);
  void remove_peer(Peer& peer);
  void release_grant(Peer& peer);
  void make_idle(Peer& peer);
  void forget_idle(const Peer& peer);
  Peer* take_idle(NodeEntry& node, const std::vector<int>& gpu_ids);
  void retire_idle_on(NodeEntry& node, const std::vector<int>& gpu_ids);
  void retire(Peer& peer);
  void look_after_processes();
  void arm_look_after();
  std::string lost_message(const Peer& peer, const std::string& what, const std::string& how) const;

  // hub_nodes.cc
  void on_node_joined(const NodeInfo& node) override;
  void on_node_draining(NodeId node, const std::string& why) override;
  void on_node_left(NodeId node, const std::string& why) override;
  Resources most_of_a_node() const;
  std::vector<Node> describe_nodes() const;
  std::string why_impossible(const Need& need) const;
  std::string why_impossible(const std::vector<Request>& asked, Placement placement,
                             bool with_replacements = true) const;
  const std::vector<Request>& requests_of(const std::vector<ObjectId>& group) const;
  void fail_impossible();
  void fail_unqueued(ObjectId id, const Outcome& failed);

  // hub_status.cc
  std::string status();

  // hub_supply.cc
  bool may_come(const std::vector<Request>& asked, Placement placement,
                bool with_replacements) const;
  std::string what_may_come() const;
  void plan_nodes_later();
  void plan_nodes_now();
  std::vector<NodePlanState::Waiting> waiting_for_room();
  std::set<NodeId> used_nodes() const;
  void give_up_waiting_for_nodes(const SupplyState& supply);

  // hub_memory.cc
  void adopt(Value& value);
  OutBuffer& out_of(Peer& peer, bool is_run);
  void send_now(Peer& peer, FromHub& message);
  void send_held(Peer& peer);
  bool hold_until_there(Peer& peer, FromHub& message);
  void fail_held(Peer& peer, Held held);
  void forget_memory_of(NodeId node, const std::string& why);

  // hub_tasks.cc
  void submit(Peer& peer, TaskSpec&& spec, const std::vector<ObjectId>& group = {},
              std::vector<Request> gang = {});
  Need need_of(const TaskSpec& spec) const;
  void dependency_ready(Task& task);
  void enqueue(Task& task);
  void dispatch_tasks();
  void fill_pipelines();
  void open_pipeline(Peer& peer);
  void close_pipeline(Peer& peer);
  void assign(Task& task, Peer& peer);
  bool send_run(Task& task, Peer& peer);
  void finish_task(ObjectId id, Outcome outcome);
  void on_task_done(Peer& peer, TaskDone&& done);
  size_t on_tasks_returned(Peer& peer, const std::vector<ObjectId>& ids);
  void on_worker_lost(Peer& peer, const std::string& how);
  void on_worker_start_failed(const std::string& why);
  void give_up_on_workers(const std::string& why);
  void cancel(ObjectId id, bool force);
  void abandon_children(uint32_t submitter);
  bool is_short(const Task& task) const;
  std::string why_waits(ObjectId id);
  std::string why_waits_itself(ObjectId id, ObjectId* next);
  std::unique_ptr<EventLoop::Timer> kill_if_still_at(ObjectId task, uint32_t index);
  std::string describe_holder(uint64_t holder);

  // hub_actors.cc
  void add_actor(const TaskSpec& create, const std::vector<ObjectId>& group,
                 std::vector<Request> gang);
  Peer& place_actor(Task& create, Grant grant);
  bool start_group(const std::vector<ObjectId>& group);
  void submit_call(Task& task);
  void send_calls(Actor& actor);
  void on_actor_created(Actor& actor, bool ok, const ErrorInfo& error);
  void on_actor_lost(Peer& peer, const std::string& how);
  void kill_actor(ObjectId id, bool may_restart, const std::string& why);
  void end_actor(Actor& actor, ErrorInfo why);
  void fail_waiting(Actor& actor);
  void on_actor_unreferenced(ObjectId id);

  HubOptions options_;
  EventLoop loop_;
  LoopTurn turn_{loop_};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.context.get_executor()};
  boost::asio::local::stream_protocol::acceptor acceptor_{loop_.context};
  std::unique_ptr<StatusSocket> status_socket_;
  const Clock::time_point began_ = Clock::now();
  std::unique_ptr<WorkerLogs> logs_;
  std::unique_ptr<Engine> engine_;
  Ledger ledger_;
  std::shared_ptr<Client> driver_client_;

  std::unordered_map<uint32_t, std::unique_ptr<Peer>> peers_;
  std::unordered_map<ProcessId, uint32_t> peer_of_process_;
  uint32_t next_index_ = 1;
  std::map<NodeId, NodeEntry> nodes_;
  std::set<NodeId> crowded_;  // may have idle workers that nobody needs
  std::list<Pipeline> pipelines_;
  std::unordered_set<uint32_t> deep_;  // pool workers that may have tasks waiting behind another
  size_t joining_ = 0;                 // processes that have yet to say hello
  uint64_t last_counted_loss_ = 0;
  std::vector<std::weak_ptr<AsyncChannel>> unjoined_;  // accepted, and not yet of a peer
  int accept_failures_ = 0;
  int start_failures_ = 0;  // pool workers in a row that ended before they said hello
  int next_worker_name_ = 1;

  MemoryTransfers* transfers_ = nullptr;  // null on one machine
  NodeSupply* supply_ = nullptr;          // likewise
  std::unique_ptr<EventLoop::Timer> plan_timer_;
  std::unordered_map<LocatedMemory*, std::weak_ptr<LocatedMemory>> located_;
  size_t located_in_use_ = 0;
  ObjectTable objects_;
  std::unordered_map<ObjectId, std::unique_ptr<Task>> tasks_;
  std::unordered_map<ObjectId, std::unique_ptr<Actor>> actors_;
  std::map<std::string, ObjectId> actor_names_;
  TaskQueue ready_;
  std::deque<ObjectId> dependency_ready_;
  std::deque<ObjectId> unreferenced_;                             // actors
  std::unordered_map<ObjectId, std::vector<ObjectId>> children_;  // of tasks, while they last
  std::unordered_map<uint64_t, double> run_time_;                 // of functions, in ns, smoothed
  int free_running_ = 0;
  bool dispatch_posted_ = false;
  std::mutex put_off_mutex_;    // guards the next two; may be locked with the loop's held
  bool takes_put_off_ = false;  // a dispatch is due soon, which handles what is put off until then
  std::vector<ToHub> put_off_;  // by the driver's threads
  std::vector<ToHub> handled_;  // its memory, for the next time
  Clock::time_point dispatch_ended_{};  // the last one
  Clock::duration dispatch_took_{};
  std::unique_ptr<EventLoop::Timer> dispatch_timer_;
  bool stopping_ = false;
  std::string failure_;  // why the thread ended before its time

  std::unique_ptr<EventLoop::Timer> look_after_timer_;
  std::unique_ptr<EventLoop::Timer> stop_timer_;
  std::unique_ptr<EventLoop::Timer> accept_timer_;
  std::unique_ptr<EventLoop::Timer> start_timer_;  // set: no worker is started until it ends
  std::map<ProcessId, std::pair<uint32_t, uint64_t>> detached_starts_;  // who asked
  std::thread thread_;
};

}  // namespace manta
