// What the hub makes of strangers. The hub here is one of its own, beside the test program's.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include "manta/base/names_internal.h"
#include "manta/core/hub_internal.h"
#include "manta/core/local_engine_internal.h"
#include "manta/core/session_folder_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

const std::string kToken = "0123456789abcdef0123456789abcdef";

class HubTest : public testing::Test {
 protected:
  explicit HubTest(std::chrono::milliseconds hello_deadline = 50ms) : folder_("") {
    HubOptions options;
    options.session_folder = options.log_folder = folder_.path();
    options.address = {folder_.path() + "/hub.sock", kToken};
    options.hello_deadline = hello_deadline;
    LocalEngineOptions engine{{.cpus = 2}, options.address, folder_.path(), {"hub_test"}};
    options.make_engine = [engine](EventLoop& loop, EngineEvents& events) {
      return std::make_unique<LocalEngine>(loop, engine, events);
    };
    hub_ = std::make_unique<Hub>(std::move(options));
  }

  Channel connect() { return Channel(connect_unix(folder_.path() + "/hub.sock")); }

  // What the hub answers; empty if it just closes.
  std::string answer(Channel& channel) {
    Frame frame;
    if (!channel.receive(&frame, Deadline::after(30s))) return "";
    FromHub message = decode_message<FromHub>(frame);
    auto* rejected = std::get_if<Rejected>(&message);
    return rejected ? rejected->why : "not a rejection";
  }

  std::string greet(Hello hello) {
    Channel channel = connect();
    channel.send([&](OutBuffer& out) { encode_message<ToHub>(out, hello); });
    return answer(channel);
  }

  std::string send_bytes(const std::string& bytes, bool then_close = false) {
    Channel channel = connect();
    EXPECT_EQ(::send(channel.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    if (then_close) ::shutdown(channel.fd(), SHUT_WR);
    return answer(channel);
  }

  // Still there, and still of the same mind.
  void TearDown() override { EXPECT_EQ(greet({"wrong", program_build_id(), 1}), "wrong token"); }

  SessionFolder folder_;
  std::unique_ptr<Hub> hub_;
};

TEST_F(HubTest, AWrongTokenIsRefused) {
  EXPECT_EQ(greet({"", program_build_id(), 1}), "wrong token");
  EXPECT_EQ(greet({std::string(32, 'x'), program_build_id(), 1}), "wrong token");
  EXPECT_EQ(greet({kToken + "x", program_build_id(), 1}), "wrong token");
}

TEST_F(HubTest, AnotherBuildIsRefusedAndBothAreNamed) {
  auto other = program_build_id();
  other[0] ^= 1;
  EXPECT_THAT(greet({kToken, other, 1}),
              AllOf(HasSubstr("is of build " + to_hex(other)),
                    HasSubstr("this run is of build " + to_hex(program_build_id()))));
}

TEST_F(HubTest, AProcessThatNobodyStartedIsRefused) {
  EXPECT_THAT(greet({kToken, program_build_id(), 12345}),
              HasSubstr("no process 12345 is expected"));
}

TEST_F(HubTest, MalformedOversizedAndTruncatedFramesAreRefused) {
  EXPECT_EQ(send_bytes("GET / HTTP/1.1\r\n\r\n"), "");
  std::string oversized("MNT1\xff\xff\xff\x7f\0\0\0\0", 12);
  EXPECT_EQ(send_bytes(oversized), "");
  std::string truncated("MNT1\x64\0\0\0\0\0\0\0half", 16);
  EXPECT_EQ(send_bytes(truncated, true), "");
  std::string unknown("MNT1\0\0\0\0\xff\0\0\0", 12);
  EXPECT_EQ(send_bytes(unknown), "");
}

TEST_F(HubTest, AFirstMessageThatIsNoGreetingIsRefused) {
  Channel channel = connect();
  channel.send([&](OutBuffer& out) { encode_message<ToHub>(out, Fetch{1}); });
  EXPECT_EQ(answer(channel), "");
}

TEST_F(HubTest, APeerThatSaysNothingOrHalfAWordIsDropped) {
  Channel silent = connect();
  EXPECT_EQ(answer(silent), "");
  EXPECT_EQ(send_bytes("MNT"), "");
}

// An engine that starts nothing.
struct PaperEngine final : Engine {
  Resources resources() const override { return {.cpus = 3}; }
  std::vector<ProcessId> start(const std::vector<ProcessSpec>& gang) override {
    gangs.push_back(gang);
    std::vector<ProcessId> ids;
    for (size_t i = 0; i < gang.size(); ++i) ids.push_back(next++);
    return ids;
  }
  void kill(ProcessId process) override { killed.push_back(process); }
  void shutdown() override {}

  std::vector<std::vector<ProcessSpec>> gangs;
  std::vector<ProcessId> killed;
  ProcessId next = 1;
};

struct NoLink final : HubLink {
  void send(ToHub) override {}
};

TEST(HubEngineTest, AGangIsStartedByOneCallAndFailsAsOne) {
  SessionFolder folder("");
  PaperEngine* engine = nullptr;
  EngineEvents* events = nullptr;
  HubOptions options;
  options.session_folder = options.log_folder = folder.path();
  options.address = {folder.path() + "/hub.sock", kToken};
  options.make_engine = [&](EventLoop&, EngineEvents& hub) {
    auto made = std::make_unique<PaperEngine>();
    engine = made.get();
    events = &hub;
    return made;
  };
  Hub hub(std::move(options));
  EXPECT_EQ(hub.total(), (Resources{.cpus = 3}));
  auto client = std::make_shared<Client>(std::make_unique<NoLink>(), 0, hub.total());
  hub.set_client(client);

  std::vector<TaskSpec> specs(3);
  std::vector<detail::HandlePtr> handles;
  for (TaskSpec& spec : specs) {
    spec.id = client->new_id();
    spec.kind = TaskKind::kActorCreate;
    spec.name = "member";
    spec.resources = {.cpus = 1};
    handles.push_back(client->own(spec.id));
  }
  hub.post(CreateGroup{specs});
  ASSERT_EQ(engine->gangs.size(), 1u);
  ASSERT_EQ(engine->gangs[0].size(), 3u);
  EXPECT_EQ(engine->gangs[0][1].resources, (Resources{.cpus = 1}));

  events->on_start_failed({1, 2, 3}, "no machine is left");
  for (const auto& handle : handles) hub.post(Fetch{handle->id});
  client->on_closed("over");
  hub.stop();
}

class PatientHubTest : public HubTest {
 protected:
  PatientHubTest() : HubTest(10min) {}
};

TEST_F(PatientHubTest, OnlySoManyStrangersAreHeardAtATime) {
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 64; ++i) silent.push_back(connect_unix(folder_.path() + "/hub.sock"));
  Channel talks = connect();
  talks.send([&](OutBuffer& out) { encode_message<ToHub>(out, Hello{}); });
  pollfd polled{talks.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&polled, 1, 300), 0);
  silent.clear();
  EXPECT_EQ(answer(talks), "wrong token");
}

TEST_F(PatientHubTest, AStrangersDescriptorsAreRefused) {
  Channel channel = connect();
  channel.send([&](OutBuffer& out) { out.push(0, "", {{channel.fd(), nullptr}}); });
  EXPECT_EQ(answer(channel), "");
}

}  // namespace
}  // namespace manta
