#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/actor.h"
#include "manta/train/event_queue_internal.h"
#include "manta/train/key_value_store_internal.h"
#include "manta/train/member_internal.h"
#include "manta/train/training_internal.h"

namespace manta::train {

/// The processes of one attempt, from their start to their end: the workers, and the data reader if
/// there are data sets, which start all or none. What happens to them goes to the queue.
///
/// They connect to a Unix socket of the group's own, which listens until all have joined. A
/// connection that has not joined may send one frame of 4 KB, without descriptors, within 10
/// seconds; 64 such are accepted at a time.
class Group {
 public:
  struct Plan {
    int attempt = 0;
    int64_t next_report = 0;
    std::string run_name, run_folder;
    std::string checkpoint;
    std::map<std::string, data::Position> positions;
  };
  /// Returns at once. Throws Error(kResources) if the machine can never hold the group.
  Group(const Training& training, Plan plan, EventQueue& events);
  ~Group();  ///< Kills what is left.
  Group(const Group&) = delete;

  /// Tells the workers that all have made a report; or, later, that it is committed.
  void acknowledge(int64_t index, bool committed);
  /// Ends every process: those whose loop is over are let go, the others are killed. Returns when
  /// none does anything any more.
  void stop();

 private:
  struct Connection {
    UniqueFd socket;
    FrameDecoder decoder;
    OutBuffer out;            // what the socket has not taken yet: nobody waits for a reader
    std::optional<int> rank;  // once it has said who it is
    Clock::time_point since;
  };

  void start();
  void serve();
  void watch(size_t member);
  void run_thread(void (Group::*body)());
  bool is_stopping();
  void warn_of_those_left(const std::vector<ObjectRef<void>>& left) const;
  void wake();
  void accept();
  void read(Connection& connection);
  bool read_one(Connection& connection);
  void fail(Connection& connection, ErrorKind kind, const std::string& why);
  void drop(Connection& connection);
  void flush(Connection& connection);
  void on(Connection& connection, Join& message);
  void on(int rank, SendReport& message);
  void on(int rank, SendFiles& message);
  void on(int rank, SendActivity& message);
  void on(int rank, SendFailure& message);
  void on(int rank, SendDone& message);
  void on(int rank, SendProgress& message);
  void on(int rank, SendEpoch& message);
  void on(int rank, StoreRequest& message);
  void begin();
  template <class Message>
  void send(int rank, const Message& message);

  const Training& training_;
  const Plan plan_;
  EventQueue& events_;
  const std::string token_;
  const std::string address_;
  UniqueFd listener_;  // until all have joined
  UniqueFd wake_;

  std::vector<int> ranks_;  // of the members, in the order of the next two
  std::vector<ActorHandle<Member>> members_;
  std::vector<ObjectRef<void>> runs_;

  // Of the serving thread.
  std::vector<std::unique_ptr<Connection>> connections_;
  std::map<int, Connection*> joined_;
  Clock::time_point accept_again_;  // after a failure
  int accept_failures_ = 0;         // in a row
  KeyValueStore store_;
  std::map<int, int64_t> reported_;  // the last report of each rank
  std::set<int> concluded_;          // ranks that have said how they ended

  std::mutex mutex_;  // guards the next two
  bool stopping_ = false;
  std::vector<Acknowledged> to_acknowledge_;

  // What hears of processes that end before their time. It may still be called when the group has
  // gone.
  struct Watch {
    std::mutex mutex;
    EventQueue* events = nullptr;  // null: not any more
  };
  std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();

  std::thread server_;
};

}  // namespace manta::train
