#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/io/collectives_internal.h"
#include "manta/io/eager_wait_internal.h"
#include "manta/io/tls_internal.h"

namespace manta {

/// Where processes leave messages for each other before they are connected: a key-value store of
/// the run.
struct LinkMeeting {
  std::function<void(const std::string& key, const std::string& value)> set;
  /// Waits for the key, and throws Error if it does not come.
  std::function<std::string(const std::string& key)> get;
};

struct HostLinksOptions {
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);  ///< As in GroupOptions.
  /// What messages call each member, e.g. "rank 4 on n2". Default: its number here.
  std::vector<std::string> names = {};
  /// How long all members may take to connect. Default: `timeout`.
  std::optional<std::chrono::nanoseconds> connect_timeout = {};
  /// Says to which step a call belongs, for the members to compare. Must outlive the links.
  const WaitWatch* steps = nullptr;
};

/// Collectives between one process on each of several hosts, over separate connections, for little
/// data: the calling thread itself waits for its data, and looks for it before it sleeps
/// (EagerWait). An exchange takes ceil(log2(members)) rounds (recursive doubling), each of which
/// sends all of the data. All members make the same calls in the same order, which every call
/// compares; each call runs in the calling thread. Results are the same bits on every member.
///
/// Connections are encrypted. Member 0 makes the key, and the others get it through the meeting.
/// Each member listens at its address only until all have connected; Listener says what a stranger
/// may do there.
///
/// Calls throw Error: kWorkerLost, at once, if a member that this one is connected to has ended;
/// kTimeout if it does not answer; kInvalidArgument, on all, if they made different calls or are at
/// different steps. Each names the member. After a failure all later calls fail, too, on every
/// member, with the first cause. Not thread-safe.
class HostLinks {
 public:
  /// Blocks until all are connected. `address` is the address at which the others reach this host.
  HostLinks(int member, int size, const std::string& address, const LinkMeeting& meeting,
            HostLinksOptions options = {});
  ~HostLinks();
  HostLinks(const HostLinks&) = delete;

  /// Compares the call with those of the others and returns when all have made it. It is a barrier,
  /// and comes before an exchange that uses other connections.
  void meet(CollectiveCall call);
  /// In place. Throws Error(kInvalidArgument) at once where find_reduce has no function.
  void allreduce(void* data, const Elements& elements, ReduceKind kind);
  /// In place: copies the root's data to all members.
  void broadcast(void* data, const Elements& elements, int root);

  /// Makes every later call fail, here and on the other members, with this cause.
  void fail(ErrorKind kind, const std::string& message);

 private:
  struct Link;
  struct Header;
  class Arrivals;
  /// Takes the data that came with a header.
  using Take = std::function<void(int from, std::span<std::byte> data)>;

  void connect_all(const std::string& address, const LinkMeeting& meeting, Deadline deadline);
  void add_link(int partner, std::unique_ptr<Transport> transport);
  std::vector<int> partners() const;
  void run(CollectiveCall call, const std::function<std::span<const std::byte>(int to)>& give,
           const Take& take);
  /// Sends and receives at the same time; one of the two may be missing.
  void exchange(int partner, const Header* header, std::span<const std::byte> data,
                const CollectiveCall& call, const Take* take, Deadline deadline);
  void check(const Header& header, int partner, const CollectiveCall& call);
  const std::string& name(int member) const { return options_.names[static_cast<size_t>(member)]; }
  std::string what_failed(const CollectiveCall& call, int partner) const;
  [[noreturn]] void fail_and_throw(ErrorKind kind, const std::string& message);

  const int member_;
  const int size_;
  HostLinksOptions options_;
  int doubling_ = 1;  // the largest power of two that is not above size_
  std::map<int, std::unique_ptr<Link>> links_;
  std::vector<std::byte> received_;
  uint32_t sequence_ = 0;
  EagerWait eager_;
  std::optional<Error> failure_;
};

}  // namespace manta
