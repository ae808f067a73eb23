#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "manta/base/names_internal.h"
#include "manta/io/async_channel_internal.h"
#include "manta/io/event_loop_internal.h"
#include "manta/io/tls_listener_internal.h"
#include "manta/io/unix_listener_internal.h"
#include "manta/train/disk_thread_internal.h"
#include "manta/tune/function_messages_internal.h"

namespace manta::tune {

/// The files that an attempt of a trial may send and fetch if it does not see the experiment's
/// folder.
struct TrialFiles {
  std::string folder;               ///< The trial's folder: files that it sends go to its staging
                                    ///< folder.
  std::string checkpoint;           ///< The checkpoint that it goes on from; empty if there is
                                    ///< none.
  std::set<std::string> fetchable;  ///< Files of that checkpoint.
};

/// Receives the reports of functions' trials, and moves files of checkpoints from and to nodes that
/// do not see the experiment's folder. Trials connect with the experiment's token: on the driver's
/// node to the experiment's Unix socket; on other nodes, if there are or may be any, over TLS. The
/// server listens on both for as long as it lives. See Listener for what a connection may do
/// before.
class ReportServer {
 public:
  /// Gets a trial's report, on the server's thread, which must not wait for a decision. It may
  /// return an answer at once, instead of a later call of `answer`.
  using OnReport = std::function<std::optional<SendVerdict>(uint64_t trial, int attempt,
                                                            SendTrialReport& report)>;
  /// Listens, and with other nodes marks the entry's folder. Throws Error(kIo).
  ReportServer(train::DriverEntry entry, OnReport on_report);
  ~ReportServer();  ///< Closes all connections and removes the mark; no calls after it.
  ReportServer(const ReportServer&) = delete;

  /// The entry that trials need to connect.
  const train::DriverEntry& entry() const { return entry_; }
  /// Whether there are, or may be, nodes other than the driver's machine.
  bool has_other_nodes() const { return !entry_.host.empty(); }

  /// From now on this attempt of a trial may connect, once.
  void expect(uint64_t trial, int attempt, TrialFiles files);
  /// Call it when the attempt has ended. When this returns, nothing of the attempt is written any
  /// more.
  void forget(uint64_t trial, int attempt);
  void answer(uint64_t trial, int attempt, const SendVerdict& verdict);

 private:
  using Channel = std::shared_ptr<AsyncChannel>;
  struct Member {
    int attempt = 0;
    std::shared_ptr<const TrialFiles> files;
    Channel channel;
  };
  using DiskWork = std::function<ToTrial(const TrialFiles& files)>;

  void remove_mark() const;
  void on_first(const Channel& channel, Frame& frame, bool is_local);
  void on_frame(uint64_t trial, int attempt, Frame& frame);
  void on(uint64_t trial, int attempt, JoinExperiment& message);
  void on(uint64_t trial, int attempt, SendTrialReport& message);
  void on(uint64_t trial, int attempt, train::SendChunk& message);
  void on(uint64_t trial, int attempt, train::WantChunk& message);
  void answer_from_disk(uint64_t trial, int attempt, const DiskWork& work);
  Member* find(uint64_t trial, int attempt);
  void send(uint64_t trial, int attempt, const ToTrial& message);

  const OnReport on_report_;
  train::DriverEntry entry_;
  EventLoop loop_;
  std::unique_ptr<UnixListener> local_listener_;
  std::unique_ptr<TlsListener> tls_listener_;  // null on one machine
  std::map<uint64_t, Member> members_;
  std::mutex disk_mutex_;   // held while files of a trial are used; locked before the loop's mutex
  train::DiskThread disk_;  // files that travel from and to other nodes
  std::thread thread_;
};

}  // namespace manta::tune
