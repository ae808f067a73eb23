#include <gmock/gmock.h>
#include <sys/socket.h>

#include <condition_variable>
#include <cstring>
#include <map>
#include <numeric>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/io/host_links_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

// A store for members that are threads.
class Meeting {
 public:
  LinkMeeting of(std::chrono::nanoseconds timeout) {
    return {.set =
                [this](const std::string& key, const std::string& value) {
                  std::lock_guard lock(mutex_);
                  values_[key] = value;
                  changed_.notify_all();
                },
            .get =
                [this, timeout](const std::string& key) {
                  std::unique_lock lock(mutex_);
                  if (!changed_.wait_for(lock, timeout, [&] { return values_.contains(key); })) {
                    throw Error(ErrorKind::kTimeout, "nobody has set " + key);
                  }
                  return values_[key];
                }};
  }
  std::string wait_for(const std::string& key) { return of(50s).get(key); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

// Runs `body` as each member, on a thread; what each has thrown, or "".
std::vector<std::string> run_members(int size,
                                     const std::function<void(HostLinks&, int member)>& body,
                                     std::chrono::milliseconds timeout = 50s) {
  Meeting meeting;
  std::vector<std::string> outcomes(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int member = 0; member < size; ++member) {
    threads.emplace_back([&, member] {
      try {
        HostLinks links(member, size, "127.0.0.1", meeting.of(timeout), {.timeout = timeout});
        body(links, member);
      } catch (const Error& error) {
        outcomes[static_cast<size_t>(member)] = str(kind_name(error.kind()), ": ", error.what());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return outcomes;
}

Elements floats(size_t count) { return {ElementType::kFloat32, 4, count}; }

std::vector<float> part_of(int member, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(static_cast<size_t>(member + 1) * (i % 7 + 1));
  }
  return values;
}

class HostLinksTest : public testing::TestWithParam<int> {};

TEST_P(HostLinksTest, AllreduceOfEverySize) {
  int size = GetParam();
  auto outcomes = run_members(size, [&](HostLinks& links, int member) {
    for (size_t count : {0u, 1u, 256u, 5000u, 300'000u}) {
      auto values = part_of(member, count);
      links.allreduce(values.data(), floats(count), ReduceKind::kSum);
      auto expected = part_of(size * (size + 1) / 2 - 1, count);  // 1 + 2 + ... + size
      EXPECT_EQ(values, expected) << count;
    }
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome, "");
}

TEST_P(HostLinksTest, AllHaveTheSameBits) {
  int size = GetParam();
  std::vector<std::vector<float>> results(static_cast<size_t>(size));
  run_members(size, [&](HostLinks& links, int member) {
    std::vector<float> values(100);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 1.0f / static_cast<float>(i + 3) + static_cast<float>(member) * 1e5f;
    }
    links.allreduce(values.data(), floats(100), ReduceKind::kSum);
    results[static_cast<size_t>(member)] = values;
  });
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST_P(HostLinksTest, BroadcastFromEveryRoot) {
  int size = GetParam();
  auto outcomes = run_members(size, [&](HostLinks& links, int member) {
    for (int root = 0; root < size; ++root) {
      for (size_t count : {0u, 1u, 5000u}) {
        auto values = part_of(member, count);
        links.broadcast(values.data(), floats(count), root);
        EXPECT_EQ(values, part_of(root, count)) << root;
      }
    }
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome, "");
}

TEST_P(HostLinksTest, NobodyPassesBeforeTheLastHasCome) {
  std::atomic<int> come{0};
  auto outcomes = run_members(GetParam(), [&](HostLinks& links, int member) {
    for (int round = 1; round <= 5; ++round) {
      if (round % GetParam() == member) std::this_thread::sleep_for(5ms);
      ++come;
      links.meet({.kind = CollectiveKind::kBarrier});
      EXPECT_GE(come, round * GetParam());
    }
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome, "");
}

INSTANTIATE_TEST_SUITE_P(Sizes, HostLinksTest, testing::Values(1, 2, 3, 4, 5, 7),
                         [](const auto& info) { return std::to_string(info.param); });

TEST(HostLinksFailure, DifferentCallsNameBoth) {
  auto outcomes = run_members(2, [](HostLinks& links, int member) {
    std::vector<float> values(10);
    if (member == 0) {
      links.allreduce(values.data(), floats(10), ReduceKind::kSum);
    } else {
      links.broadcast(values.data(), floats(3), 1);
    }
  });
  for (const auto& outcome : outcomes) {
    EXPECT_THAT(outcome, AllOf(HasSubstr("invalid argument"),
                               HasSubstr("allreduce (sum) of 40 bytes of float"),
                               HasSubstr("broadcast from rank 1 of 12 bytes of float")));
  }
}

TEST(HostLinksFailure, AMemberThatIsGoneIsNamedAtOnceAndEverywhere) {
  auto outcomes = run_members(4, [](HostLinks& links, int member) {
    links.meet({.kind = CollectiveKind::kBarrier});
    if (member == 3) return;
    for (;;) links.meet({.kind = CollectiveKind::kBarrier});
  });
  EXPECT_EQ(outcomes[3], "");
  for (int i : {0, 1, 2}) {  // 0 is not connected to it, and hears of it from the others
    EXPECT_THAT(
        outcomes[static_cast<size_t>(i)],
        AllOf(HasSubstr("worker lost: barrier on member "), HasSubstr("member 3 has ended")));
  }
}

TEST(HostLinksFailure, TheCauseOfAFailureIsToldToAll) {
  auto outcomes = run_members(4, [](HostLinks& links, int member) {
    links.meet({.kind = CollectiveKind::kBarrier});
    if (member == 0) {
      links.fail(ErrorKind::kUserCode, "the loop of rank 5 threw");
      Error again = error_of([&] { links.meet({.kind = CollectiveKind::kBarrier}); });
      EXPECT_EQ(again.kind(), ErrorKind::kUserCode);
      return;
    }
    for (;;) links.meet({.kind = CollectiveKind::kBarrier});
  });
  for (size_t i : {1u, 2u, 3u}) EXPECT_THAT(outcomes[i], HasSubstr("the loop of rank 5 threw"));
}

TEST(HostLinksFailure, AMemberThatDoesNotComeIsATimeout) {
  std::atomic<bool> over{false};
  auto outcomes = run_members(
      2,
      [&](HostLinks& links, int member) {
        if (member == 1) {
          while (!over) std::this_thread::sleep_for(1ms);
          return;
        }
        std::string message = message_of([&] { links.meet({.kind = CollectiveKind::kBarrier}); });
        over = true;
        EXPECT_THAT(message, AllOf(HasSubstr("member 1 did not arrive within 0.3 s")));
      },
      300ms);
  EXPECT_EQ(outcomes[0], "");
}

TEST(HostLinksFailure, AMemberThatNeverStartsIsATimeout) {
  Meeting meeting;
  Error error = error_of([&] {
    HostLinks links(0, 2, "127.0.0.1", meeting.of(1s),
                    {.timeout = 50ms, .names = {"rank 0", "rank 4"}});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr("rank 4 did not connect to rank 0 at 127.0.0.1"));
}

TEST(HostLinksFailure, StrangersKeepNobodyWaiting) {
  Meeting meeting;
  std::thread first([&] {
    HostLinks links(0, 2, "127.0.0.1", meeting.of(50s));
    links.meet({.kind = CollectiveKind::kBarrier});
  });
  TcpAddress at = parse_address(meeting.wait_for("at/0"));
  auto deadline = Deadline::after(50s);
  std::vector<UniqueFd> silent;  // connect, and say nothing
  for (int i = 0; i < 20; ++i) silent.push_back(connect_tcp(at.host, at.port, deadline));
  UniqueFd loud = connect_tcp(at.host, at.port, deadline);
  ASSERT_GT(::send(loud.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 0);
  EXPECT_THROW(connect_tls(TlsKey("another token of 16 bytes"), at.host, at.port, deadline), Error);
  {
    HostLinks links(1, 2, "127.0.0.1", meeting.of(50s));
    links.meet({.kind = CollectiveKind::kBarrier});
  }
  first.join();
  EXPECT_THROW(connect_tcp(at.host, at.port, deadline), Error) << "nothing listens any more";
}

}  // namespace
}  // namespace manta
