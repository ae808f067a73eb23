#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <deque>
#include <list>
#include <random>
#include <set>

#include "manta/base/names_internal.h"
#include "manta/core/archive_json.h"
#include "manta/core/messages_internal.h"
#include "manta/io/channel_internal.h"

namespace manta {
namespace {

// A frame as it arrives, with the bytes that it lives in.
struct Arrived {
  std::string body;
  Frame frame;
};

template <class Variant, class Message>
Arrived send(const Message& message) {
  auto [left, right] = socket_pair();
  OutBuffer out;
  encode_message<Variant>(out, message);
  EXPECT_EQ(out.flush(left.get()), IoStatus::kDone);
  FrameDecoder decoder;
  EXPECT_EQ(decoder.receive(right.get()), IoStatus::kDone);
  Arrived arrived;
  EXPECT_TRUE(decoder.next(&arrived.frame));
  arrived.body = arrived.frame.body;
  return arrived;
}

template <class Variant>
Variant decode(Arrived arrived) {
  arrived.frame.body = arrived.body;
  return decode_message<Variant>(arrived.frame);
}

template <class Message, class Variant>
Message round_trip(const Message& message) {
  return std::get<Message>(decode<Variant>(send<Variant>(message)));
}

template <class Variant>
ErrorKind refusal(uint16_t type, std::string body) {
  Arrived arrived;
  arrived.frame.type = type;
  arrived.body = std::move(body);
  try {
    decode<Variant>(std::move(arrived));
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "threw nothing";
  return ErrorKind::kUserCode;
}

struct Empty {
  template <class Archive>
  void serialize(Archive&) {}
};

// Of this process, in bytes.
size_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

TaskSpec spec_with(Value args) {
  TaskSpec spec;
  spec.id = 77;
  spec.function.thunk = {{1, 2, 3}, 0x1234};
  spec.function.target = {{4, 5, 6}, 0x5678};
  spec.name = "fit";
  spec.args = std::move(args);
  spec.ref_args = {{0, 11}, {2, 12}};
  spec.resources = {.cpus = 2, .gpus = 0.5, .memory = 10, .custom = {{"disk", 1}}};
  spec.max_retries = 5;
  spec.retry_exceptions = true;
  spec.parent = 70;
  spec.depth = 3;
  return spec;
}

void expect_same(const TaskSpec& a, const TaskSpec& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.function.thunk, b.function.thunk);
  EXPECT_EQ(a.function.target, b.function.target);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.args.body(), b.args.body());
  EXPECT_EQ(a.args.refs, b.args.refs);
  ASSERT_EQ(a.ref_args.size(), b.ref_args.size());
  for (size_t i = 0; i < a.ref_args.size(); ++i) {
    EXPECT_EQ(a.ref_args[i].index, b.ref_args[i].index);
    EXPECT_EQ(a.ref_args[i].id, b.ref_args[i].id);
  }
  EXPECT_EQ(a.max_retries, b.max_retries);
  EXPECT_EQ(a.retry_exceptions, b.retry_exceptions);
  EXPECT_EQ(a.parent, b.parent);
  EXPECT_EQ(a.depth, b.depth);
}

TEST(MessagesTest, ASubmitArrivesWhole) {
  for (size_t size : {0u, 100u, 300000u}) {
    SCOPED_TRACE(size);
    Submit submit{spec_with(to_value(std::string(size, 'x')))};
    submit.spec.args.refs = {5, 6};
    auto arrived = send<ToHub>(submit);
    EXPECT_EQ(arrived.frame.type, 1);
    EXPECT_EQ(arrived.frame.fds.size(), size > kLargeBuffer ? 1u : 0u);
    auto read = std::get<Submit>(decode<ToHub>(std::move(arrived)));
    expect_same(read.spec, submit.spec);
    EXPECT_EQ(read.spec.resources, submit.spec.resources);
    EXPECT_EQ(from_value<std::string>(read.spec.args).size(), size);
  }
}

TEST(MessagesTest, EachKindOfTaskCarriesItsFields) {
  Submit call{spec_with(to_value(1))};
  call.spec.kind = TaskKind::kActorCall;
  call.spec.actor = 9;
  auto read = round_trip<Submit, ToHub>(call);
  expect_same(read.spec, call.spec);
  EXPECT_EQ(read.spec.actor, 9u);

  Submit create{spec_with(to_value(1))};
  create.spec.kind = TaskKind::kActorCreate;
  create.spec.max_restarts = -1;
  create.spec.max_concurrency = 7;
  create.spec.actor_name = "counter";
  create.spec.actor_type = "7Counter";
  read = round_trip<Submit, ToHub>(create);
  expect_same(read.spec, create.spec);
  EXPECT_EQ(read.spec.resources, create.spec.resources);
  EXPECT_EQ(read.spec.max_restarts, -1);
  EXPECT_EQ(read.spec.max_concurrency, 7);
  EXPECT_EQ(read.spec.actor_name, "counter");
  EXPECT_EQ(read.spec.actor_type, "7Counter");
}

TEST(MessagesTest, ARunArrivesWithAllItsValues) {
  manta::Run run;
  run.spec = spec_with(to_value(std::string(200000, 'a')));
  run.ref_values = {to_value(1), to_value(std::string(300000, 'b')), to_value(std::string("c")),
                    to_value(std::string(400000, 'd'))};
  run.attempt = 2;
  run.cpus = 0.5;
  run.gpu_ids = {0, 3};
  auto arrived = send<FromHub>(run);
  EXPECT_EQ(arrived.frame.fds.size(), 3u);
  auto read = std::get<manta::Run>(decode<FromHub>(std::move(arrived)));
  expect_same(read.spec, run.spec);
  ASSERT_EQ(read.ref_values.size(), 4u);
  EXPECT_EQ(from_value<int>(read.ref_values[0]), 1);
  EXPECT_TRUE(from_value<std::string>(read.ref_values[1]) == std::string(300000, 'b'));
  EXPECT_EQ(from_value<std::string>(read.ref_values[2]), "c");
  EXPECT_TRUE(from_value<std::string>(read.ref_values[3]) == std::string(400000, 'd'));
  EXPECT_TRUE(from_value<std::string>(read.spec.args) == std::string(200000, 'a'));
  EXPECT_EQ(read.attempt, 2);
  EXPECT_EQ(read.cpus, 0.5);
  EXPECT_EQ(read.gpu_ids, (std::vector<int>{0, 3}));
}

TEST(MessagesTest, OutcomesCarryAValueOrAnError) {
  Outcome good;
  good.ok = true;
  good.value = to_value(5);
  auto done = round_trip<TaskDone, ToHub>({.id = 1, .outcome = good, .run_nanoseconds = 9});
  EXPECT_TRUE(done.outcome.ok);
  EXPECT_EQ(from_value<int>(done.outcome.value), 5);
  EXPECT_EQ(done.run_nanoseconds, 9u);

  auto ready = round_trip<ObjectReady, FromHub>(
      {2, true, Outcome::failed(ErrorKind::kCancelled, "stopped")});
  EXPECT_FALSE(ready.outcome.ok);
  EXPECT_EQ(ready.outcome.error.kind, ErrorKind::kCancelled);
  EXPECT_EQ(ready.outcome.error.message, "stopped");

  ready = round_trip<ObjectReady, FromHub>({3, false, good});
  EXPECT_FALSE(ready.with_outcome);
  EXPECT_FALSE(ready.outcome.ok);
}

TEST(MessagesTest, MessagesWithoutFieldsAreEmpty) {
  EXPECT_EQ(send<ToHub>(Unblocked{}).body, "");
  EXPECT_EQ(send<FromHub>(Recall{}).body, "");
  EXPECT_TRUE(std::holds_alternative<Exit>(decode<FromHub>(send<FromHub>(Exit{}))));
}

TEST(MessagesTest, AnUnknownTypeIsCorrupt) {
  EXPECT_EQ(refusal<ToHub>(std::variant_size_v<ToHub>, ""), ErrorKind::kCorrupt);
  EXPECT_EQ(refusal<FromHub>(std::variant_size_v<FromHub>, ""), ErrorKind::kCorrupt);
  EXPECT_EQ(refusal<ToHub>(65535, ""), ErrorKind::kCorrupt);
}

TEST(MessagesTest, TrailingBytesAreCorrupt) {
  auto arrived = send<ToHub>(Fetch{{5}});
  EXPECT_EQ(refusal<ToHub>(arrived.frame.type, arrived.body + "x"), ErrorKind::kCorrupt);
  EXPECT_EQ(refusal<FromHub>(4, "x"), ErrorKind::kCorrupt);  // Recall has none
}

TEST(MessagesTest, TruncatedMessagesAreCorrupt) {
  auto submit = send<ToHub>(Submit{spec_with(to_value(std::string("args")))});
  for (size_t size = 0; size < submit.body.size(); ++size) {
    EXPECT_EQ(refusal<ToHub>(submit.frame.type, submit.body.substr(0, size)), ErrorKind::kCorrupt)
        << size;
  }
  manta::Run message;
  message.spec = spec_with(to_value(1));
  message.ref_values = {to_value(2), to_value(std::string("x"))};
  message.gpu_ids = {1};
  auto run = send<FromHub>(message);
  for (size_t size = 0; size < run.body.size(); ++size) {
    EXPECT_EQ(refusal<FromHub>(run.frame.type, run.body.substr(0, size)), ErrorKind::kCorrupt)
        << size;
  }
}

TEST(MessagesTest, AMessageWithoutItsDescriptorsIsCorrupt) {
  auto arrived = send<ToHub>(Put{3, to_value(std::string(200000, 'x'))});
  EXPECT_EQ(refusal<ToHub>(arrived.frame.type, arrived.body), ErrorKind::kCorrupt);
}

TEST(MessagesTest, DamagedMessagesAreReadOrCorrupt) {
  std::mt19937 random(3);
  Outcome good;
  good.ok = true;
  good.value = to_value(std::string("result"));
  std::vector<Arrived> sources;
  sources.push_back(send<ToHub>(Submit{spec_with(to_value(std::string("args")))}));
  sources.push_back(send<ToHub>(TaskDone{.id = 1, .outcome = good}));
  sources.push_back(send<ToHub>(Hello{.token = "secret"}));
  int corrupt = 0;
  for (int round = 0; round < 20000; ++round) {
    const Arrived& source = sources[random() % sources.size()];
    Arrived bad;
    bad.body = source.body;
    bad.frame.type = static_cast<uint16_t>(round % 4 ? source.frame.type : random() % 20);
    for (uint32_t flips = 1 + random() % 3; flips > 0; --flips) {
      bad.body[random() % bad.body.size()] ^= static_cast<char>(1 << random() % 8);
    }
    try {
      decode<ToHub>(std::move(bad));
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kCorrupt) << error.what();
      ++corrupt;
    }
  }
  EXPECT_GT(corrupt, 1000);
}

// A few bytes that claim to be something large.
TEST(MessagesTest, AHostileLengthIsRefusedBeforeMemoryIsMadeForIt) {
  auto number = [](uint64_t value) { return std::string(reinterpret_cast<char*>(&value), 8); };
  const uint64_t kSpecs = 65'000;  // of some 500 bytes each, from a message of 8
  auto type_of = [](const auto& message) { return send<ToHub>(message).frame.type; };
  size_t peak_before = peak_memory();
  for (uint64_t claimed : {kSpecs, uint64_t{1} << 32, uint64_t{1} << 62, ~uint64_t{0}}) {
    EXPECT_EQ(refusal<ToHub>(type_of(CreateGroup{}), number(claimed)), ErrorKind::kCorrupt);
    EXPECT_EQ(refusal<ToHub>(type_of(Blocked{}), number(claimed)), ErrorKind::kCorrupt);
    EXPECT_EQ(refusal<ToHub>(type_of(Hello{}), number(claimed)), ErrorKind::kCorrupt);
  }
  // The frame claims as many elements as it has bytes, but these bytes hold only the first few
  // names.
  std::string body = number(1'000'000) + std::string(1'000'000, '\0');
  EXPECT_EQ(refusal<ToHub>(type_of(CreateGroup{}), body), ErrorKind::kCorrupt);
  EXPECT_LT(peak_memory(), peak_before + (size_t{200} << 20));
}

struct WithJson {
  Json json;
  std::variant<int, std::string> either;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(json, either);
  }
};
using JsonMessages = std::variant<WithJson>;

TEST(MessagesTest, JsonOfAnyShapeIsReadOrCorrupt) {
  Json deep = 1;
  for (int i = 0; i < 400; ++i) deep = i % 2 ? Json{{"a", deep}} : Json::array({0, deep});
  for (const Json& json :
       {Json(), Json(1.5), Json::object(), Json::array(), deep,
        Json{{"lr", {1, 2, {{"x", nullptr}}}}, {"name", std::string(300, 'n')}}}) {
    auto read = round_trip<WithJson, JsonMessages>(WithJson{json, 1});
    EXPECT_EQ(read.json, json);
  }
  for (const char* open :
       {"\x81", "\x9f", "\xa1\x61\x61", "\xbf\x61\x61", "\x7f", "\x5f", "\xc1"}) {
    std::string bytes;
    for (int i = 0; i < 2'000'000; ++i) bytes += open;
    std::string body;
    OutArchive archive(body);
    archive(bytes, 0, 1);
    EXPECT_EQ(refusal<JsonMessages>(0, body), ErrorKind::kCorrupt);
  }
}

TEST(MessagesTest, WhatCerealItselfRefusesIsAnErrorOfOurs) {
  for (int32_t index : {2, 7, -1}) {
    std::string body;
    OutArchive archive(body);
    archive(Json(1), index, 1);
    EXPECT_EQ(refusal<JsonMessages>(0, body), ErrorKind::kCorrupt) << index;
  }
}

TEST(MessagesTest, SequencesArriveWhole) {
  using Mixed = std::tuple<std::vector<int>, std::vector<bool>, std::vector<std::string>,
                           std::deque<double>, std::list<std::vector<int8_t>>, std::vector<Empty>>;
  Mixed sent{{1, 2, 3}, {true, false}, {"a", "", "c"}, {0.5}, {{1}, {}, {2, 3}}, {{}, {}}};
  auto read = from_value<Mixed>(to_value(sent));
  EXPECT_EQ(std::get<0>(read), std::get<0>(sent));
  EXPECT_EQ(std::get<1>(read), std::get<1>(sent));
  EXPECT_EQ(std::get<2>(read), std::get<2>(sent));
  EXPECT_EQ(std::get<3>(read), std::get<3>(sent));
  EXPECT_EQ(std::get<4>(read), std::get<4>(sent));
  EXPECT_EQ(std::get<5>(read).size(), 2u);
}

}  // namespace
}  // namespace manta
