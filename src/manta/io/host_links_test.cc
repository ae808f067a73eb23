#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <condition_variable>
#include <cstring>
#include <future>
#include <map>
#include <numeric>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/io/host_links_internal.h"
#include "manta/io/poll_internal.h"
#include "manta/io/transport_pair_internal.h"

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

// Runs `body` as each member, on a thread, and returns what each has thrown, or "". `timeout` is
// for calls only.
std::vector<std::string> run_members(int size,
                                     const std::function<void(HostLinks&, int member)>& body,
                                     std::chrono::milliseconds timeout = 50s,
                                     const WaitWatch* watches = nullptr) {
  Meeting meeting;
  std::vector<std::string> outcomes(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int member = 0; member < size; ++member) {
    threads.emplace_back([&, member] {
      try {
        HostLinks links(member, size, "127.0.0.1", meeting.of(50s),
                        {.timeout = timeout,
                         .connect_timeout = 50s,
                         .steps = watches ? watches + member : nullptr});
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

TEST_P(HostLinksTest, NoMemberPassesBeforeTheLastHasCome) {
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

TEST(HostLinksFailure, DifferentStepsNameBoth) {
  for (int size : {2, 3}) {
    std::vector<WaitWatch> watches(static_cast<size_t>(size));
    auto outcomes = run_members(
        size,
        [&](HostLinks& links, int member) {
          WaitWatch& watch = watches[static_cast<size_t>(member)];
          std::vector<float> values(10);
          watch.set_step(member == 1 ? 5 : 4);
          watch.set_step(-1);  // e.g. a sum that the loop makes itself
          links.allreduce(values.data(), floats(10), ReduceKind::kSum);
          watch.set_step(member == 1 ? 5 : 4);
          links.allreduce(values.data(), floats(10), ReduceKind::kSum);
        },
        50s, watches.data());
    for (int member = 0; member < size; ++member) {
      EXPECT_THAT(outcomes[static_cast<size_t>(member)],
                  AllOf(HasSubstr("invalid argument: "), HasSubstr("at different steps"),
                        HasSubstr("member 1 at step 5"), HasSubstr("member 0 at step 4")))
          << member;
    }
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
  std::promise<void> over;
  auto outcomes = run_members(
      2,
      [&, is_over = over.get_future().share()](HostLinks& links, int member) {
        if (member == 1) return is_over.wait();
        std::string message = message_of([&] { links.meet({.kind = CollectiveKind::kBarrier}); });
        over.set_value();
        EXPECT_THAT(message, HasSubstr("member 1 did not arrive within 0.3 s"));
      },
      300ms);
  EXPECT_EQ(outcomes[0], "");
  EXPECT_EQ(outcomes[1], "");
}

// Member 0 sends more than it should. These unread bytes must not keep member 2 from noticing that
// member 0 takes nothing.
TEST(HostLinksFailure, AMemberThatTakesNothingIsATimeout) {
  Meeting meeting;
  LinkMeeting of_first = meeting.of(50s);
  UniqueFd listening = listen_tcp("127.0.0.1", 0);
  of_first.set("key", std::string(32, 'k'));
  of_first.set("at/0", local_address(listening.get()).text());
  auto outcome = std::async(std::launch::async, [&] {
    return error_of([&] {
      HostLinks links(2, 3, "127.0.0.1", meeting.of(50s),
                      {.timeout = 100ms, .connect_timeout = 50s});
      std::vector<float> values(4 << 20);  // more than sockets hold
      links.allreduce(values.data(), floats(values.size()), ReduceKind::kSum);
    });
  });
  auto first =
      accept_tls(TlsKey(std::string(32, 'k')), accept_one(listening.get()), Deadline::after(50s));
  FrameDecoder hello;
  Frame frame;
  while (!hello.next(&frame)) {
    if (hello.receive(*first, Blocking::kNo) == IoStatus::kWouldBlock) {
      ASSERT_TRUE(poll_until(first->fd(), POLLIN, Deadline::after(50s)));
    }
  }
  ASSERT_EQ(first->write("welcome", {}).bytes, 7);
  Error error = outcome.get();
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr("member 0 did not arrive within 0.1 s"));
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

// A connection of a stranger, from another address of this host.
UniqueFd stranger(const std::string& to) {
  TcpAddress at = parse_address(to);
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  EXPECT_EQ(::inet_pton(AF_INET, "127.0.0.2", &address.sin_addr), 1);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(::inet_pton(AF_INET, at.host.c_str(), &address.sin_addr), 1);
  address.sin_port = htons(at.port);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return socket;
}

// Strangers that connect to a member that listens.
class Strangers {
 public:
  explicit Strangers(const std::string& at) : at_(at) {}

  void say_nothing() { stay_.push_back(stranger(at_)); }
  void say_something_else() {
    stay_.push_back(stranger(at_));
    EXPECT_GT(::send(stay_.back().get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 0);
  }
  void come_and_go() { stranger(at_); }
  void reset() {
    UniqueFd socket = stranger(at_);
    linger at_once{.l_onoff = 1, .l_linger = 0};
    EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
  }

 private:
  const std::string at_;
  std::vector<UniqueFd> stay_;
};

// The strangers come before the members, again and again, while each member has yet to accept its
// first peer.
TEST_P(HostLinksTest, StrangersKeepNoMemberWaiting) {
  int size = GetParam();
  for (int round = 0; round < 3; ++round) {
    Meeting meeting;
    std::vector<std::thread> members;
    std::vector<std::string> addresses(static_cast<size_t>(size));
    for (int member = 0; member < size; ++member) {
      members.emplace_back([&, member] {
        std::string& own = addresses[static_cast<size_t>(member)];
        std::optional<Strangers> strangers;
        LinkMeeting base = meeting.of(50s), met = base;
        met.set = [&](const std::string& key, const std::string& value) {
          if (key.starts_with("at/")) {
            strangers.emplace(own = value);
            strangers->reset();
            for (int i = 0; i < 10; ++i) strangers->say_something_else();
            for (int i = 0; i < 10; ++i) strangers->come_and_go();
            for (int i = 0; i < 100; ++i) strangers->say_nothing();
            strangers->reset();
          }
          base.set(key, value);
        };
        HostLinks links(member, size, "127.0.0.1", met, {.timeout = 50s});
        links.meet({.kind = CollectiveKind::kBarrier});
      });
    }
    for (auto& member : members) member.join();
    for (const auto& address : addresses) {
      if (size == 1) continue;
      TcpAddress at = parse_address(address);
      EXPECT_THROW(connect_tcp(at.host, at.port, Deadline::after(50s)), Error)
          << "nothing listens any more";
    }
  }
}

// These peers hold the key, but are not the member waited for.
TEST(HostLinksFailure, APeerThatIsNotTheMissingMemberIsRefused) {
  Meeting meeting;
  auto first = std::async(std::launch::async, [&] {
    HostLinks links(0, 2, "127.0.0.1", meeting.of(50s), {.timeout = 50s});
    links.meet({.kind = CollectiveKind::kBarrier});
  });
  TcpAddress at = parse_address(meeting.wait_for("at/0"));
  TlsKey key(meeting.wait_for("key"));
  const std::string member_1("MLK1\1\0\0\0", 8);
  auto say = [&](uint16_t type, const std::string& body, size_t cut_off = 0) {
    auto transport = connect_tls(key, at.host, at.port, Deadline::after(50s));
    std::string bytes("MNT1", 4);
    auto append = [&](auto number) {
      bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
    };
    append(static_cast<uint32_t>(body.size()));
    append(type);
    append(uint16_t{0});
    bytes += body;
    bytes.resize(bytes.size() - cut_off);
    EXPECT_EQ(transport->write(bytes, {}).bytes, bytes.size());
    return transport;
  };
  say(1, member_1, 4);
  say(1, member_1, 12);
  for (auto& refused : {say(2, member_1), say(1, member_1.substr(0, 4)), say(1, member_1 + "?"),
                        say(1, std::string("MLK1\2\0\0\0", 8)),
                        say(1, std::string("MLK1\0\0\0\0", 8)), say(1, std::string(8, '?'))}) {
    char byte = 0;
    std::deque<UniqueFd> none;
    while (refused->read({&byte, 1}, none, Blocking::kNo).status == IoStatus::kWouldBlock) {
      ASSERT_TRUE(poll_until(refused->fd(), POLLIN, Deadline::after(50s)));
    }
    EXPECT_EQ(byte, 0) << "it is welcome";
  }
  HostLinks links(1, 2, "127.0.0.1", meeting.of(50s), {.timeout = 50s});
  links.meet({.kind = CollectiveKind::kBarrier});
  first.get();
}

}  // namespace
}  // namespace manta
