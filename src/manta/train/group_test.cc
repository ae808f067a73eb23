// The processes of a group, and how the driver handles those that misbehave.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/train/group_internal.h"
#include "manta/train/session_internal.h"
#include "manta/train/train_loop.h"

namespace manta::train {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

struct Holder {
  int hold() { return 1; }
};

class GroupTest : public testing::Test {
 protected:
  void prepare(const TrainLoop& loop, int workers, double cpus, bool with_data = false) {
    training_.loop = loop.function();
    training_.loop_takes_config = loop.takes_config();
    training_.scaling = {.num_workers = workers, .resources_per_worker = {.cpus = cpus}};
    if (with_data) {
      training_.datasets = {{"train", data::read_parquet(folder_.write_rows("rows", 0, 10, 10))}};
    }
    std::filesystem::create_directories(folder_ / "logs");
  }
  std::unique_ptr<Group> start() {
    Group::Plan plan;
    plan.run_folder = folder_.path();
    return std::make_unique<Group>(training_, std::move(plan), events_);
  }
  // Nothing of the group starts before it is killed.
  static ActorHandle<Holder> take_all_cpus() {
    auto holder = actor<Holder>(ActorOptions{.resources = {.cpus = 2}});
    get(holder.call<&Holder::hold>(), 30s);
    return holder;
  }
  // The socket that the group listens on.
  static std::string address() {
    for (const auto& entry : std::filesystem::directory_iterator(current_session_folder())) {
      if (entry.path().filename().string().rfind("train-", 0) == 0) return entry.path().string();
    }
    return "";
  }
  // The next event of that kind, within half a minute.
  template <class T>
  std::optional<T> next() {
    auto deadline = Deadline::after(30s);
    while (auto item = events_.pop(deadline)) {
      if (!item->event) continue;
      if (auto* event = std::get_if<T>(&*item->event)) return *event;
      if (auto* failed = std::get_if<Failed>(&*item->event)) {
        ADD_FAILURE() << failed->failure.message;
      }
    }
    return std::nullopt;
  }
  static bool is_closed_within(int fd, std::chrono::milliseconds time) {
    pollfd polled{fd, POLLIN, 0};
    char byte;
    return ::poll(&polled, 1, static_cast<int>(time.count())) == 1 && ::read(fd, &byte, 1) <= 0;
  }

  data::ParquetFolder folder_;
  Training training_;
  EventQueue events_;
};

// No deadline may run for a reader while its workers wait for CPUs.
TEST_F(GroupTest, TheDataReaderStartsTogetherWithTheWorkers) {
  prepare([] {}, 2, 1, true);
  auto holder = take_all_cpus();
  auto group = start();
  EXPECT_FALSE(events_.pop(Deadline::after(1s)));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "logs/data-reader.log"));
  kill(holder);
  EXPECT_TRUE(next<GroupStarted>());
  EXPECT_TRUE(next<Finished>());
  EXPECT_TRUE(next<Finished>());
  EXPECT_TRUE(std::filesystem::exists(folder_ / "logs/data-reader.log"));
}

TEST_F(GroupTest, ItsSocketIsGoneOnceAllHaveJoined) {
  prepare([] {}, 1, 1);
  auto holder = take_all_cpus();
  auto group = start();
  EXPECT_NE(address(), "");
  kill(holder);
  EXPECT_TRUE(next<GroupStarted>());
  EXPECT_EQ(address(), "");
}

TEST_F(GroupTest, AStrangerMaySendOnlySmallFrames) {
  prepare([] {}, 1, 1);
  auto holder = take_all_cpus();
  auto group = start();
  testing::internal::CaptureStderr();
  Channel stranger(connect_unix(address()));
  stranger.send([](OutBuffer& out) {
    encode_message<FromMember>(out, Join{std::string(5000, 'x'), 0, 0});
  });
  EXPECT_TRUE(is_closed_within(stranger.fd(), 30s));
  kill(holder);
  EXPECT_TRUE(next<GroupStarted>());  // still there
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the limit is 4096"));
}

TEST_F(GroupTest, AStrangerMayOnlyIdentifyItself) {
  prepare([] {}, 1, 1);
  auto holder = take_all_cpus();
  auto group = start();
  testing::internal::CaptureStderr();
  Channel early(connect_unix(address()));
  early.send([](OutBuffer& out) { encode_message<FromMember>(out, SendDone{}); });
  EXPECT_TRUE(is_closed_within(early.fd(), 30s));
  kill(holder);
  EXPECT_TRUE(next<GroupStarted>());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("it spoke before it joined"));
}

TEST_F(GroupTest, OnlySoManyStrangersAreHeardAtATime) {
  prepare([] {}, 1, 1);
  auto holder = take_all_cpus();
  auto group = start();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 64; ++i) silent.push_back(connect_unix(address()));
  UniqueFd talks = connect_unix(address());
  ASSERT_EQ(::send(talks.get(), "nonsense, and more of it", 24, MSG_NOSIGNAL), 24);
  EXPECT_FALSE(is_closed_within(talks.get(), 500ms));
  silent.pop_back();
  EXPECT_TRUE(is_closed_within(talks.get(), 30s));
}

// It must not be a busy loop, or end the program.
TEST_F(GroupTest, ADriverWithoutDescriptorsSaysSo) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "UBSan needs a descriptor to look at an object's type";
#endif
  prepare([] {}, 1, 1);
  auto holder = take_all_cpus();
  auto group = start();
  UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  UniqueFd folder(::open(current_session_folder().c_str(), O_PATH | O_CLOEXEC));
  std::string path = str("/proc/self/fd/", folder.get(), "/",
                         std::filesystem::path(address()).filename().string());
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  UniqueFd lowest(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit none{static_cast<rlim_t>(lowest.get()), before.rlim_max};
  lowest.reset();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  int connected = ::connect(client.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name));
  auto failed = next<Failed>();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(connected, 0);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->failure.rank, kDriver);
  EXPECT_THAT(failed->failure.message, HasSubstr("ulimit -n"));
}

// Rank 1 asks for a value and stops. Rank 0 then gives it, four megabytes, and reports.
void stop_while_a_large_answer_is_due() {
  Session& session = Session::current("test");
  auto ask = [&](StoreRequest::Kind kind, const std::string& key, std::string value = {}) {
    StoreRequest request;
    request.kind = kind;
    request.keys = {key};
    request.value = std::move(value);
    session.ask_store(request, 30s);
  };
  if (session.begin().rank == 1) {
    std::thread asks([&] { ask(StoreRequest::kGet, "large"); });
    ask(StoreRequest::kSet, "asked");
    std::this_thread::sleep_for(200ms);  // the other request is on its way
    ::raise(SIGSTOP);
    asks.join();
  } else {
    ask(StoreRequest::kGet, "asked");
    std::this_thread::sleep_for(600ms);
    ask(StoreRequest::kSet, "large", std::string(4 << 20, 'x'));
    train::report({{"heard", true}});
  }
}

TEST_F(GroupTest, AWorkerThatDoesNotReadHoldsUpNoOther) {
  prepare(stop_while_a_large_answer_is_due, 2, 0.25);
  auto group = start();
  EXPECT_TRUE(next<GroupStarted>());
  auto reported = next<Reported>();
  ASSERT_TRUE(reported);
  EXPECT_EQ(reported->rank, 0);
  group->stop();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need address space
TEST(SessionTest, IsNotTheProcesssOneWithoutItsThreads) {
  // Runs in a child process, which has no address space left for a stack.
  pid_t pid = ::fork();
  if (pid == 0) {
    auto [ours, theirs] = socket_pair();
    auto channel = std::make_shared<Channel>(std::move(ours));
    rlimit none{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_AS, &none);
    auto take_a_stack = [] { start_thread("a test's thread", [] { ::pause(); }).detach(); };
    try {
      for (int i = 0; i < 1000; ++i) take_a_stack();  // uses up the ended threads' stacks
    } catch (const Error&) {
    }
    Error error = error_of([&] { Session session(channel, BeginTraining()); });
    bool good = error.kind() == ErrorKind::kResources && !Session::current_or_null();
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}
#endif

TEST(KeyValueStoreTest, AnswersRequestsThatWait) {
  KeyValueStore store;
  EXPECT_TRUE(store.ask(1, {.request = 1, .kind = StoreRequest::kGet, .keys = {"a", "b"}}).empty());
  EXPECT_EQ(
      store.ask(0, {.request = 1, .kind = StoreRequest::kSet, .keys = {"a"}, .value = "x"}).size(),
      1u);
  auto answers =
      store.ask(0, {.request = 2, .kind = StoreRequest::kAdd, .keys = {"b"}, .amount = 3});
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].reply.number, 3);
  EXPECT_EQ(answers[1].rank, 1);
  EXPECT_EQ(answers[1].reply.value, "x");
  EXPECT_THAT(
      message_of([&] { store.ask(0, {.kind = StoreRequest::kAdd, .keys = {"a"}, .amount = 1}); }),
      HasSubstr("it adds 1 to the key 'a'"));
  EXPECT_THAT(message_of([&] { store.ask(0, {.kind = static_cast<StoreRequest::Kind>(99)}); }),
              HasSubstr("operation 99"));
}

}  // namespace
}  // namespace manta::train
