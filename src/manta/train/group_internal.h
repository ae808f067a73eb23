#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/actor.h"
#include "manta/core/node.h"
#include "manta/io/tls_listener_internal.h"
#include "manta/io/unix_listener_internal.h"
#include "manta/train/disk_thread_internal.h"
#include "manta/train/event_queue_internal.h"
#include "manta/train/key_value_store_internal.h"
#include "manta/train/member_internal.h"
#include "manta/train/report_pace_internal.h"
#include "manta/train/training_internal.h"

namespace manta::train {

/// The processes of one attempt, from their start to their end: the workers, which start all or
/// none, and a data reader on each node that has workers, if there are data sets. Their events go
/// to the queue. The workers may have been started before (Training::workers): then they are left
/// alive. They may also be threads of the driver.
///
/// They connect to the driver: on its own node to the group's Unix socket, on other nodes over TLS,
/// with the group's key. The group listens on both until all have joined. See Listener for what a
/// connection may do before.
class Group {
 public:
  struct Plan {
    int attempt = 0;
    int64_t next_report = 0;
    std::string run_name, run_folder;
    std::string checkpoint;
    std::map<std::string, data::Position> positions;
    bool in_driver = false;  ///< One worker, and its data reader, as threads of this process.
  };
  /// Returns at once. Throws Error(kResources) if the nodes can never hold the group.
  Group(const Training& training, Plan plan, EventQueue& events);
  ~Group();  ///< Kills the remaining processes.
  Group(const Group&) = delete;

  /// Tells the workers that all of them have made a report or, later, that the report is committed.
  void acknowledge(int64_t index, bool committed);
  /// Tells the workers that a checkpoint is being written somewhere, and makes progress.
  void tell_of_writing();
  /// Has each worker report how often its loop has called train::should_stop. Later, stop_from
  /// tells them from which call on it returns true.
  void ask_to_stop();
  void stop_from(int64_t ask);
  /// Where each process is, thread by thread; see process_stacks. A task takes those of another
  /// node; if a node does not answer in time, the text says why.
  std::string stacks(Deadline deadline);
  /// Ends every process: those whose loop is over are told to end, the others are killed. Returns
  /// when none runs any more. A thread cannot be killed: its loop ends when it returns or calls a
  /// function of manta::train.
  void stop();
  /// Why its processes have not started.
  std::string why_waits();
  /// Whether there are nodes other than the driver's machine.
  bool has_other_nodes() const { return !entry_.driver.host.empty(); }
  /// A node of its workers that will be taken away; empty if there is none.
  std::string draining_node();

 private:
  /// One of the processes.
  struct Seat {
    int rank = 0;  // kDataReader for a data reader
    std::string name;
    std::optional<NodeId> node;  // of a data reader: where it belongs
    ActorHandle<Member> actor = {};
    ObjectRef<void> run = {};
    std::optional<Join> joined = {};
    std::shared_ptr<AsyncChannel> channel = {};  // while it is open
    bool concluded = false;                      // it has reported how it ended
    bool finished = false;                       // it has reported that its loop has returned
    std::thread thread = {};                     // instead of an actor, in the driver
    std::future<void> thread_ended = {};
    LoopResult result = {};             // of the loop
    std::optional<SendPort> port = {};  // of a data reader that may share the reading
    std::optional<SendMesh> mesh = {};
  };
  /// A node's part of the group, in the order of the nodes' first ranks.
  struct NodePart {
    Node node;
    std::vector<size_t> workers;    // their seats, by rank
    std::optional<size_t> reader;   // its seat
    std::vector<size_t> not_begun;  // seats that wait until the first worker is ready for them
    bool listens = false;           // its workers read messages to their loops
  };

  // group.cc
  void start();
  void start_readers();
  void start_seats(size_t first, std::vector<ActorOptions> options);
  void use_started_workers();
  void start_thread_of(size_t seat);
  void run_in_driver(size_t seat);
  void join_threads();
  void end_processes();
  void take_result(Seat& seat);
  std::map<std::string, data::WirePlan> wire_plans() const;
  void serve();
  void hear();
  void watch(const Seat& seat);
  void warn_of_those_left(const std::vector<ObjectRef<void>>& left) const;
  std::vector<NodePart> parts_of_nodes() const;
  void begin();
  void begin_on_driver(const NodePart& part);
  void begin_elsewhere(NodePart& part);
  Place place_of(const NodePart& part, size_t local_rank) const;
  BeginTraining training_message(const NodePart& part, size_t local_rank);
  BeginReading reading_message(const NodePart& part) const;
  ReaderPeers peers_of_reader(const NodePart& part) const;
  std::string address_of(const NodePart& part, const Seat& seat) const;
  bool all_joined() const;

  // group_messages.cc
  void on_first(const std::shared_ptr<AsyncChannel>& channel, Frame& frame, bool is_local);
  void on_all_joined();
  bool is_on_draining_node() const;
  void on_frame(size_t seat, Frame& frame);
  void on_closed(size_t seat, const std::string& why);
  void fail(Seat& seat, ErrorKind kind, const std::string& why);
  void on(size_t seat, Hosting& message);
  void on(size_t seat, SendReport& message);
  void on(size_t seat, SendFiles& message);
  void on(size_t seat, SendChunk& message);
  void on(size_t seat, WantChunk& message);
  void on(size_t seat, SendWriting& message);
  void on(size_t seat, SendActivity& message);
  void on(size_t seat, SendFailure& message);
  void on(size_t seat, SendDone& message);
  void on(size_t seat, SendProgress& message);
  void on(size_t seat, SendEpoch& message);
  void on(size_t seat, SendAsks& message);
  void on(size_t seat, StoreRequest& message);
  void on(size_t seat, SendPort& message);
  void on(size_t seat, SendMesh& message);
  void on(size_t seat, WantThreads& message);
  void read_now(const std::string& why_alone);
  void pass_on_writing();
  template <class Message>
  void send(Seat& seat, const Message& message);

  const Training& training_;
  const Plan plan_;
  EventQueue& events_;
  const GroupEntry entry_;  // `port` is not known yet
  uint16_t port_ = 0;

  EventLoop loop_;  // its mutex guards what follows
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.context.get_executor()};
  std::unique_ptr<UnixListener> local_listener_;  // until all have joined; also the next
  std::unique_ptr<TlsListener> tls_listener_;     // null on one machine
  std::vector<Seat> seats_;                       // workers by rank, then data readers
  bool begun_ = false;
  bool wants_asks_ = false;  // see WantAsks
  Clock::time_point told_of_writing_;
  std::vector<NodePart> parts_;
  std::set<std::string> fetchable_;  // files of the checkpoint that other nodes may ask for
  KeyValueStore store_;
  std::map<int, int64_t> reported_;  // the last report of each rank
  bool stopping_ = false;

  // Is told of processes that end too early. It may still be called when the group has gone.
  struct Watch {
    std::mutex mutex;
    EventQueue* events = nullptr;  // null: the group has gone
  };
  std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();

  DiskThread disk_;  // files that travel from and to other nodes
  ReportPace pace_;  // of the server's thread
  std::thread server_;
};

}  // namespace manta::train
