#include <arrow/api.h>
#include <gmock/gmock.h>

#include "manta/io/arrow_status_internal.h"
#include "manta/io/channel_internal.h"
#include "manta/serve/work_internal.h"

namespace manta::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kHead = "POST /m HTTP/1.1\r\nHost: a\r\n\r\n";

// The predictions are the first column; remembers how many rows each call had.
struct Echo {
  Batch operator()(const Batch& rows) {
    calls.push_back(rows->num_rows());
    if (rows->schema()->field(0)->name() != "x") throw Error(ErrorKind::kNotFound, "no x");
    for (int64_t i = 0; i < rows->num_rows(); ++i) {
      if (rows->column(0)->IsNull(i)) throw std::runtime_error("a null");
    }
    return arrow::RecordBatch::Make(arrow::schema({arrow::field("p", rows->column(0)->type())}),
                                    rows->num_rows(), {rows->column(0)});
  }
  std::vector<int64_t> calls;
};

std::vector<WorkAnswer> answer(const std::vector<std::string>& bodies, Echo& echo, int max_rows) {
  std::vector<WorkItem> items;
  for (const auto& body : bodies) items.push_back({items.size(), 1000, kHead, body});
  return answer_requests(
      items, json_columns, [&](const Batch& rows) { return echo(rows); }, max_rows);
}

TEST(Work, PredictsTogetherWhatHasTheSameColumns) {
  Echo echo;
  auto answers =
      answer({R"({"x":[1]})", R"({"x":[2.5]})", R"({"x":[3,4]})", R"({"x":[0.5]})"}, echo, 64);
  EXPECT_THAT(echo.calls, ElementsAre(3, 2));
  EXPECT_EQ(answers[0].body, R"({"p":[1]})");
  EXPECT_EQ(answers[1].body, R"({"p":[2.5]})");
  EXPECT_EQ(answers[2].body, R"({"p":[3,4]})");
  EXPECT_EQ(answers[3].body, R"({"p":[0.5]})");
}

TEST(Work, CallsHaveAtMostMaxRowsUnlessOneRequestHasMore) {
  Echo echo;
  auto answers = answer(
      {R"({"x":[1,2]})", R"({"x":[3]})", R"({"x":[4]})", R"({"x":[5,6,7,8]})", R"({"x":[9]})"},
      echo, 3);
  EXPECT_THAT(echo.calls, ElementsAre(3, 1, 4, 1));
  EXPECT_EQ(answers[3].body, R"({"p":[5,6,7,8]})");
  EXPECT_EQ(answers[4].body, R"({"p":[9]})");
}

TEST(Work, WhatOneDoesWrongIsItsOwnAnswer) {
  Echo echo;
  auto answers =
      answer({R"({"x":[1]})", R"({"x":[null,2]})", "{", R"({"y":[1]})", R"({"x":[3]})"}, echo, 64);
  EXPECT_THAT(echo.calls, ElementsAre(4, 1, 2, 1, 1));  // together, then each by itself; then y
  EXPECT_EQ(answers[0].status, 200);
  EXPECT_EQ(answers[0].body, R"({"p":[1]})");
  EXPECT_EQ(answers[1].status, 500);
  EXPECT_THAT(answers[1].body, HasSubstr("a null"));
  EXPECT_EQ(answers[2].status, 400);
  EXPECT_EQ(answers[3].status, 400);
  EXPECT_THAT(answers[3].body, HasSubstr("no x"));
  EXPECT_EQ(answers[4].body, R"({"p":[3]})");
}

TEST(Work, AWrongNumberOfPredictionsIsAnError) {
  std::vector<WorkItem> items{{7, 1000, kHead, R"({"x":[1,2]})"}};
  auto answers = answer_requests(
      items, json_columns, [](const Batch& rows) { return rows->Slice(1); }, 64);
  EXPECT_EQ(answers[0].id, 7u);
  EXPECT_EQ(answers[0].status, 500);
  EXPECT_THAT(answers[0].body, HasSubstr("returned 1 rows for 2 rows"));
}

TEST(Work, FramesCarryWhatWasPut) {
  std::string large(300'000, 'x');
  std::vector<WorkItem> items{{1, 10, "head", "small"}, {2, 20, "head2", large}, {3, 30, "", ""}};
  auto [a, b] = socket_pair();
  OutBuffer out;
  put_work(out, items);
  put_answers(out, {{1, 200, "yes"}, {2, 400, large}});
  FrameDecoder decoder;
  Frame frame;
  auto next = [&] {
    while (!decoder.next(&frame)) {
      out.flush(a.get());
      ASSERT_EQ(decoder.receive(b.get()), IoStatus::kDone);
    }
  };
  next();
  std::vector<std::shared_ptr<SharedMemory>> memory;
  auto read = read_work(frame, &memory);
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0].body, "small");
  EXPECT_EQ(read[1].head, "head2");
  EXPECT_EQ(read[1].body, large);
  EXPECT_EQ(read[2].microseconds_left, 30);
  next();
  auto answers = read_answers(frame);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].body, "yes");
  EXPECT_EQ(answers[1].status, 400);
  EXPECT_EQ(answers[1].body, large);
}

}  // namespace
}  // namespace manta::serve
