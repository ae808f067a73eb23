#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "manta/base/names_internal.h"
#include "manta/io/async_channel_internal.h"
#include "manta/io/event_loop_internal.h"
#include "manta/io/unix_listener_internal.h"
#include "manta/tune/function_messages_internal.h"

namespace manta::tune {

/// Hears what trials of functions report. They connect to a Unix socket of the experiment's own,
/// with its token.
class ReportServer {
 public:
  /// A trial's report; called on the server's thread, which must not wait for a decision. What it
  /// returns is an answer at once, in place of a call of `answer`.
  using OnReport = std::function<std::optional<SendVerdict>(uint64_t trial, int attempt,
                                                            SendTrialReport& report)>;
  explicit ReportServer(OnReport on_report);
  ~ReportServer();  ///< Closes all connections; no calls after it.
  ReportServer(const ReportServer&) = delete;

  const std::string& address() const { return address_; }
  const std::string& token() const { return token_; }

  /// From now on this attempt of a trial may connect, once.
  void expect(uint64_t trial, int attempt);
  /// It has ended.
  void forget(uint64_t trial, int attempt);
  void answer(uint64_t trial, int attempt, const SendVerdict& verdict);

 private:
  using Channel = std::shared_ptr<AsyncChannel>;
  struct Member {
    int attempt = 0;
    Channel channel;
  };

  void on_join(const Channel& channel, const JoinExperiment& join);
  void send(uint64_t trial, int attempt, const SendVerdict& verdict);

  const OnReport on_report_;
  const std::string token_, address_;
  EventLoop loop_;
  std::unique_ptr<UnixListener> listener_;
  std::map<uint64_t, Member> members_;
  std::thread thread_;
};

}  // namespace manta::tune
