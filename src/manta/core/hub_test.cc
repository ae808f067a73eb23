// What the hub makes of strangers. The hub here is one of its own, beside the test program's.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include <deque>
#include <future>
#include <iostream>
#include <set>

#include "manta/base/eventually_internal.h"
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
    NodeInfo node;
    node.total = {.cpus = 2};
    LocalEngineOptions engine{node, options.address, folder_.path(), {"hub_test"}};
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
  channel.send([&](OutBuffer& out) { encode_message<ToHub>(out, Fetch{{1}}); });
  EXPECT_EQ(answer(channel), "");
}

TEST_F(HubTest, APeerThatSaysNothingOrHalfAWordIsDropped) {
  Channel silent = connect();
  EXPECT_EQ(answer(silent), "");
  EXPECT_EQ(send_bytes("MNT"), "");
}

// An engine that starts nothing.
struct PaperEngine final : Engine {
  std::vector<ProcessId> start(const std::vector<Placed>& gang) override {
    gangs.push_back(gang);
    std::vector<ProcessId> ids;
    for (size_t i = 0; i < gang.size(); ++i) ids.push_back(next++);
    return ids;
  }
  void kill(ProcessId process) override { killed.push_back(process); }
  MemoryTransfers* transfers() override { return nullptr; }
  NodeSupply* node_supply() override { return supply; }
  void shutdown() override {}

  NodeSupply* supply = nullptr;
  std::vector<std::vector<Placed>> gangs;
  std::vector<ProcessId> killed;
  ProcessId next = 1;
};

// Nodes that never come.
struct PaperSupply final : NodeSupply {
  SupplyState state() const override { return told; }
  void want_nodes(const std::string& name, size_t count) override { wanted[name] = count; }
  void release_node(NodeId) override {}
  void spare_nodes(const std::map<std::string, size_t>&) override {}

  SupplyState told;
  std::map<std::string, size_t> wanted;  // the last time
};

struct ToThisHub final : HubLink {
  explicit ToThisHub(Hub& hub) : hub(hub) {}
  void send(ToHub&& message) override { hub.post(std::move(message)); }
  Hub& hub;
};

// A hub whose engine has the given nodes, and a driver's client of it.
class HubEngineTest : public testing::Test {
 protected:
  void start(const std::vector<NodeInfo>& nodes) {
    HubOptions options;
    options.session_folder = options.log_folder = folder_.path();
    options.address = {folder_.path() + "/hub.sock", kToken};
    options.make_engine = [&](EventLoop& loop, EngineEvents& hub) {
      auto made = std::make_unique<PaperEngine>();
      engine_ = made.get();
      if (!supply_.told.source.empty()) engine_->supply = &supply_;
      events_ = &hub;
      loop_ = &loop;
      for (const NodeInfo& node : nodes) hub.on_node_joined(node);
      return made;
    };
    hub_ = std::make_unique<Hub>(std::move(options));
    client_ = std::make_shared<Client>(std::make_unique<ToThisHub>(*hub_), 0, hub_->most());
    hub_->set_client(client_);
  }
  ~HubEngineTest() override {
    hub_->stop();
    handles_.clear();  // while there is a hub that they let go of their objects at
  }

  TaskSpec actor(Resources resources, Placement placement = Placement::kPack) {
    TaskSpec spec;
    spec.id = client_->new_id();
    spec.kind = TaskKind::kActorCreate;
    spec.name = "member";
    spec.resources = std::move(resources);
    spec.placement = placement;
    return spec;
  }

  template <class Do>
  void event(Do act) {
    std::lock_guard lock(loop_->mutex);
    act(*events_);
  }

  TaskSpec task() {
    TaskSpec spec;
    spec.id = client_->new_id();
    spec.name = "work";
    spec.resources = {.cpus = 1};
    return spec;
  }

  // The process's end of a connection that the hub takes for its own.
  std::unique_ptr<Channel> join(ProcessId process) {
    auto [ours, theirs] = socket_pair();
    std::lock_guard lock(loop_->mutex);
    auto channel = std::make_shared<AsyncChannel>(*loop_, std::move(ours), kMaxFrameBody);
    events_->on_process_connected(channel, Hello{kToken, program_build_id(), process});
    return std::make_unique<Channel>(std::move(theirs));
  }

  // How the object ended.
  std::string error_of(const detail::HandlePtr& handle) {
    try {
      if (!client_->await({handle}, 1, true, Deadline::after(30s))) return "nothing came";
      return handle->resolution->outcome.error.message;
    } catch (const Error& error) {
      return error.what();
    }
  }

  // So many actors with a CPU each, all or none; the first one's handle.
  detail::HandlePtr start_gang(int size, Placement placement = Placement::kPack) {
    std::vector<TaskSpec> specs;
    for (int i = 0; i < size; ++i) {
      specs.push_back(actor({.cpus = 1}, placement));
      handles_.push_back(client_->own(specs.back().id));
    }
    auto first = handles_[handles_.size() - static_cast<size_t>(size)];
    hub_->post(CreateGroup{std::move(specs)});
    return first;
  }
  std::vector<size_t> sizes_of_gangs() {
    std::lock_guard lock(loop_->mutex);
    std::vector<size_t> sizes;
    for (const auto& gang : engine_->gangs) sizes.push_back(gang.size());
    return sizes;
  }

  SessionFolder folder_{""};
  PaperSupply supply_;  // the engine's if it has a name
  std::vector<detail::HandlePtr> handles_;
  PaperEngine* engine_ = nullptr;
  EngineEvents* events_ = nullptr;
  EventLoop* loop_ = nullptr;
  std::unique_ptr<Hub> hub_;
  std::shared_ptr<Client> client_;
};

const std::vector<NodeInfo> kThreeNodes = {{0, "n0", "", {.cpus = 2}, {}},
                                           {1, "n1", "", {.cpus = 4}, {{"zone", "a"}}},
                                           {2, "n2", "", {.cpus = 4}, {}}};

TEST_F(HubEngineTest, AGangIsStartedByOneCallAndFailsAsOne) {
  start({{0, "here", "", {.cpus = 3}, {}}});
  EXPECT_EQ(hub_->most(), (Resources{.cpus = 3}));
  std::vector<TaskSpec> specs;
  std::vector<detail::HandlePtr> handles;
  for (int i = 0; i < 3; ++i) {
    specs.push_back(actor({.cpus = 1}));
    handles.push_back(client_->own(specs.back().id));
  }
  hub_->post(CreateGroup{specs});
  ASSERT_EQ(engine_->gangs.size(), 1u);
  ASSERT_EQ(engine_->gangs[0].size(), 3u);
  EXPECT_EQ(engine_->gangs[0][1].spec.resources, (Resources{.cpus = 1}));
  event([](EngineEvents& events) { events.on_start_failed({1, 2, 3}, "no machine is left"); });
  for (const auto& handle : handles) EXPECT_THAT(error_of(handle), HasSubstr("no machine is left"));
}

TEST_F(HubEngineTest, NodesAreTold) {
  start(kThreeNodes);
  auto nodes = client_->ask(AskNodes{}).nodes;
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[1].host, "n1");
  EXPECT_EQ(nodes[1].total, (Resources{.cpus = 4}));
  EXPECT_EQ(nodes[1].labels,
            (Labels{{"zone", "a"}, {"node", "n1"}, {"id", "1"}, {"role", "worker"}}));
  EXPECT_EQ(nodes[0].labels, (Labels{{"node", "n0"}, {"id", "0"}, {"role", "driver"}}));
  EXPECT_EQ(hub_->most().cpus, 4);
  event([](EngineEvents& events) { events.on_node_draining(2, "test"); });
  EXPECT_EQ(client_->ask(AskNodes{}).nodes[2].state, NodeState::kDraining);
  event([](EngineEvents& events) { events.on_node_left(2, "test"); });
  EXPECT_EQ(client_->ask(AskNodes{}).nodes.size(), 2u);
}

TEST_F(HubEngineTest, AGangIsPlacedOnNodes) {
  start(kThreeNodes);
  std::vector<TaskSpec> specs;
  std::vector<detail::HandlePtr> handles;
  for (int i = 0; i < 3; ++i) {
    specs.push_back(actor({.cpus = 2}, Placement::kStrictSpread));
    handles.push_back(client_->own(specs.back().id));
  }
  hub_->post(CreateGroup{specs});
  ASSERT_EQ(engine_->gangs.size(), 1u);
  std::set<NodeId> nodes;
  for (const Placed& placed : engine_->gangs[0]) nodes.insert(placed.node);
  EXPECT_EQ(nodes, (std::set<NodeId>{0, 1, 2}));
}

TEST_F(HubEngineTest, ALostNodeTakesItsProcessesAndWhatOnlyItCouldRun) {
  start(kThreeNodes);
  TaskSpec here = actor({.cpus = 4});
  here.labels = {{"zone", "a"}};
  TaskSpec waits = actor({.cpus = 4});
  waits.labels = {{"zone", "a"}};
  auto first = client_->own(here.id), second = client_->own(waits.id);
  hub_->post(Submit{here});
  hub_->post(Submit{waits});
  ASSERT_EQ(engine_->gangs.size(), 1u);
  EXPECT_EQ(engine_->gangs[0][0].node, 1u);
  event([](EngineEvents& events) { events.on_node_left(1, "no word for 4 s"); });
  EXPECT_THAT(error_of(first), HasSubstr("was lost with its node: n1: no word for 4 s"));
  EXPECT_THAT(error_of(second),
              HasSubstr("asks for 4 CPU on one node with zone=a; no node has these labels"));
}

TEST_F(HubEngineTest, AnActorThatMayRestartMovesToAnotherNode) {
  start(kThreeNodes);
  TaskSpec spec = actor({.cpus = 3});
  spec.max_restarts = 1;
  auto handle = client_->own(spec.id);
  hub_->post(Submit{spec});
  ASSERT_EQ(engine_->gangs.size(), 1u);
  NodeId lost = engine_->gangs[0][0].node;
  event([&](EngineEvents& events) { events.on_node_left(lost, "test"); });
  hub_->post(AddRef{handle->id});  // a turn of the dispatcher
  ASSERT_EQ(engine_->gangs.size(), 2u);
  EXPECT_NE(engine_->gangs[1][0].node, lost);
}

// What each of their members asks for is the same.
TEST_F(HubEngineTest, AGangThatWaitsForNodesNeitherBlocksNorFailsASmallerOne) {
  supply_.told.source = "paper";
  supply_.told.possible = {{"", 10, {.cpus = 1}, {}}};
  supply_.told.patience = 1s;
  start({{0, "n0", "", {.cpus = 2}, {}}});
  auto large = start_gang(10);
  start_gang(2);  // has room
  EXPECT_TRUE(eventually([&] { return sizes_of_gangs() == std::vector<size_t>{2}; }));
  start_gang(2);  // waits for the one before it
  EXPECT_THAT(error_of(large), AllOf(HasSubstr("asks for 10 times 1 CPU"),
                                     HasSubstr("paper has brought no node that can hold it")));
  event([](EngineEvents& events) {
    for (ProcessId process : {1, 2}) {
      ProcessExit exit;
      exit.process = process;
      events.on_exited(exit);
    }
  });
  EXPECT_TRUE(eventually([&] { return sizes_of_gangs() == std::vector<size_t>{2, 2}; }));
}

// Work waits for it; what runs on the node that drains does not leave for it.
TEST_F(HubEngineTest, AReplacementOfANodeThatDrainsIsPossibleAndNotObtainable) {
  supply_.told.source = "paper";
  supply_.told.replacements = {{"n2", 1, {.cpus = 4}, {{"node", "n2"}}}};
  start(kThreeNodes);
  event([](EngineEvents& events) { events.on_node_draining(2, "test"); });
  AskPossible question;
  question.asked = {{{.cpus = 4}, {{"node", "n2"}}}};
  for (auto [nodes, possible] :
       {std::pair(WhichNodes::kPresent, false), std::pair(WhichNodes::kObtainable, false),
        std::pair(WhichNodes::kAll, true)}) {
    question.nodes = nodes;
    EXPECT_EQ(client_->ask(question).text.empty(), possible);
  }
}

TEST_F(HubEngineTest, EachGangThatWaitsIsDemand) {
  supply_.told.source = "paper";
  supply_.told.possible = {{"", 10, {.cpus = 1}, {}}};
  supply_.told.patience = 10min;
  start({{0, "n0", "", {.cpus = 0}, {}}});
  for (int i = 0; i < 3; ++i) start_gang(2);
  EXPECT_TRUE(eventually([&] {
    std::lock_guard lock(loop_->mutex);
    return supply_.wanted[""] == 6;
  }));
}

// Each of these steps once took a time that grew with the number of tasks, of nodes, or with both.
TEST_F(HubEngineTest, ThousandsOfTasksWaitForTheirWorkersOnHundredsOfNodes) {
  constexpr size_t kNodes = 300, kPerNode = 8, kJoin = 200;
  std::vector<NodeInfo> nodes;
  for (NodeId i = 0; i < kNodes; ++i) nodes.push_back({i, str("n", i), "", {.cpus = kPerNode}, {}});
  start(nodes);
  std::vector<detail::HandlePtr> handles;
  auto begin = Clock::now();
  for (size_t i = 0; i < kNodes * kPerNode; ++i) {
    TaskSpec spec = task();
    handles.push_back(client_->own(spec.id));
    hub_->post(Submit{spec});
  }
  EXPECT_TRUE(eventually([&] {
    std::lock_guard lock(loop_->mutex);
    return engine_->gangs.size() == kNodes * kPerNode;
  }));
  auto submitted = Clock::now();
  std::deque<std::unique_ptr<Channel>> workers;
  for (ProcessId process = 1; process <= kJoin; ++process) workers.push_back(join(process));
  for (auto& worker : workers) {
    Frame welcome, run;
    ASSERT_TRUE(worker->receive(&welcome, Deadline::after(50s)));
    ASSERT_TRUE(worker->receive(&run, Deadline::after(50s)));
    EXPECT_EQ(run.type, (message_type<FromHub, manta::Run>()));
  }
  RecordProperty("submit_ms", static_cast<int>((submitted - begin) / 1ms));
  RecordProperty("join_ms", static_cast<int>((Clock::now() - submitted) / 1ms));
}

// A thread of the driver does not wait for the hub's thread, which is at work: the lock is held.
TEST_F(HubEngineTest, WhatIsSubmittedWhileTheHubIsAtWorkIsHandledNextAndInOrder) {
  start({});
  TaskSpec first = task(), second = task();
  second.ref_args = {{0, first.id}};
  auto handle = client_->own(second.id);
  std::unique_lock lock(loop_->mutex);
  events_->on_node_joined({0, "n0", "", {.cpus = 0}, {}});  // a dispatch is due
  auto submitted = std::async([&] {
    hub_->post(Submit{first});
    hub_->post(Submit{second});
  });
  EXPECT_EQ(submitted.wait_for(20s), std::future_status::ready);
  auto why = std::async([&] { return client_->ask(AskWhy{0, first.id}).text; });
  lock.unlock();
  EXPECT_EQ(why.get(), "the value is there") << "it has failed, as no node has a CPU";
  EXPECT_THAT(error_of(handle), HasSubstr("asks for 1 CPU")) << "as its argument has";
}

TEST_F(HubEngineTest, WhoSubmitsTooFarAheadOfTheHubWaits) {
  start({});
  std::vector<detail::HandlePtr> handles;
  std::unique_lock lock(loop_->mutex);
  events_->on_node_joined({0, "n0", "", {.cpus = 0}, {}});
  auto submitted = std::async([&] {
    for (int i = 0; i < 1000; ++i) {
      TaskSpec spec = task();
      handles.push_back(client_->own(spec.id));
      hub_->post(Submit{spec});
    }
  });
  EXPECT_EQ(submitted.wait_for(50ms), std::future_status::timeout);
  lock.unlock();
  submitted.get();
  for (const auto& handle : handles) EXPECT_THAT(error_of(handle), HasSubstr("asks for 1 CPU"));
}

// What a worker's end of a connection has received.
class PaperWorker {
 public:
  explicit PaperWorker(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}

  template <class Message>
  Message next() {
    FromHub message;
    do {
      Frame frame;
      if (!channel_->receive(&frame, Deadline::after(30s))) {
        throw Error(ErrorKind::kWorkerLost, "the hub has closed");
      }
      message = decode_message<FromHub>(frame);
      // It seems to be slow: it keeps what it has.
      if (std::holds_alternative<Recall>(message)) say(Returned{});
    } while (std::holds_alternative<Recall>(message));
    if (auto* run = std::get_if<manta::Run>(&message)) runs_.push_back(run->spec.id);
    return std::get<Message>(std::move(message));
  }
  template <class Message>
  void say(const Message& message) {
    channel_->send([&](OutBuffer& out) { encode_message<ToHub>(out, message); });
  }
  // The first of those that it has not done yet, in no time.
  void finish_one() {
    TaskDone done;
    done.id = runs_.front();
    done.outcome.ok = true;
    runs_.pop_front();
    say(done);
  }
  // Throws std::bad_variant_access if the hub sends something else before it answers.
  void expect_nothing_but_an_answer() {
    for (int i = 0; i < 2; ++i) {  // after the first, the hub has had a turn to dispatch
      say(AskNodes{});
      next<Answer>();
    }
  }

 private:
  std::unique_ptr<Channel> channel_;
  std::deque<ObjectId> runs_;
};

TEST_F(HubEngineTest, ShortTasksAreSentAheadSeveralAtATime) {
  start({{0, "n0", "", {.cpus = 1}, {}}});
  hub_->post(Submit{task()});
  PaperWorker worker(join(1));
  worker.next<Welcome>();
  worker.next<manta::Run>();
  worker.finish_one();  // from here on they are known to be short
  worker.expect_nothing_but_an_answer();
  for (int i = 0; i < 100; ++i) hub_->post(Submit{task()});
  for (int i = 0; i < 32; ++i) worker.next<manta::Run>();
  for (int left = 31; left > 24; --left) {
    worker.finish_one();
    EXPECT_NO_THROW(worker.expect_nothing_but_an_answer()) << left << " are left";
  }
  worker.finish_one();
  for (int i = 0; i < 8; ++i) worker.next<manta::Run>();
  EXPECT_NO_THROW(worker.expect_nothing_but_an_answer());
}

// Keeps what the client says.
struct ToPaper final : HubLink {
  explicit ToPaper(std::vector<ToHub>& said) : said(said) {}
  void send(ToHub&& message) override { said.push_back(std::move(message)); }
  std::vector<ToHub>& said;
};

TEST(ClientTest, AsksForManyObjectsInFewMessages) {
  std::vector<ToHub> said;
  auto client = std::make_shared<Client>(std::make_unique<ToPaper>(said), 0, Resources{});
  std::vector<detail::HandlePtr> handles;
  std::vector<ObjectId> ids;
  for (int i = 0; i < 2500; ++i) {
    ids.push_back(client->new_id());
    handles.push_back(client->own(ids.back()));
  }
  EXPECT_FALSE(client->await(handles, 1, true, Deadline::after(0s)));
  EXPECT_FALSE(client->await(handles, 1, true, Deadline::after(0s))) << "asked for once";
  ASSERT_EQ(said.size(), 3u);
  std::vector<ObjectId> asked;
  for (const ToHub& each : said) {
    const auto& some = std::get<Fetch>(each).ids;
    EXPECT_LE(some.size(), 1000u);
    asked.insert(asked.end(), some.begin(), some.end());
  }
  EXPECT_EQ(asked, ids);
  EXPECT_FALSE(client->await({handles[0], handles[1]}, 1, false, Deadline::after(0s)));
  EXPECT_EQ(std::get<Watch>(said.at(3)).ids, (std::vector<ObjectId>{ids[0], ids[1]}));
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
