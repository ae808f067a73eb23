#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "manta/core/actor.h"
#include "manta/train/controller_internal.h"
#include "manta/train/member_internal.h"
#include "manta/train/messages_internal.h"
#include "manta/train/training_internal.h"

namespace manta::train {

/// Where what happened waits for the controller. Any thread may push.
class EventQueue {
 public:
  void push(Event event);
  void push(SendProgress progress);
  struct Item {
    std::optional<Event> event;
    std::optional<SendProgress> progress;
  };
  /// The next thing; nothing when the deadline has passed.
  std::optional<Item> pop(Deadline deadline);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
};

/// The processes of one attempt, from their start to their end: the workers, which start all or
/// none, and the data reader if there are data sets. What happens to them goes to the queue.
class Group {
 public:
  struct Plan {
    int attempt = 0;
    int64_t next_report = 0;
    std::string run_name, run_folder;
    std::string checkpoint;
    std::map<std::string, data::Position> positions;
  };
  Group(const Training& training, Plan plan, EventQueue& events);
  ~Group();  ///< Kills what is left.

  void acknowledge(int64_t index);
  /// Ends every process: those whose loop is over are let go, the others are killed. Returns when
  /// none does anything any more.
  void stop();

 private:
  struct Connection {
    std::unique_ptr<Channel> channel;
    std::optional<int> rank;  // once it has said who it is
    Clock::time_point since;
  };
  struct Waiting {  // a request to the store that cannot be answered yet
    int rank;
    StoreRequest request;
  };

  void serve();
  void watch();
  void read(Connection& connection);
  void on(Connection& connection, Join& message);
  void on(int rank, StoreRequest& message);
  bool answer(int rank, const StoreRequest& message);
  void begin();
  template <class Message>
  void send(int rank, const Message& message);

  const Training& training_;
  const Plan plan_;
  EventQueue& events_;
  const std::string token_;
  const std::string address_;
  UniqueFd listener_;
  UniqueFd wake_;

  std::vector<int> ranks_;  // of the members, in the order of the next two
  std::vector<ActorHandle<Member>> members_;
  std::vector<ObjectRef<void>> runs_;

  std::vector<std::unique_ptr<Connection>> connections_;  // of the serving thread
  std::map<int, Connection*> joined_;
  std::map<std::string, std::string> store_;
  std::vector<Waiting> waiting_;
  std::map<int, int64_t> reported_;  // the last report of each rank
  std::set<int> concluded_;          // ranks that have said how they ended

  std::mutex mutex_;  // guards the next two
  bool stopping_ = false;
  std::vector<int64_t> to_acknowledge_;

  std::thread server_;
  std::thread watcher_;
};

}  // namespace manta::train
