#include <gmock/gmock.h>

#include "manta/base/error_of_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/position_internal.h"

namespace manta::data {
namespace {

using testing::HasSubstr;

TEST(PositionTest, ComesBackFromJson) {
  Position position{3, 1000, 7, 960};
  EXPECT_EQ(Position::from_json(position.to_json(), "train"), position);
  EXPECT_EQ(Position::from_json(Position().to_json(), "train"), Position());
}

TEST(PositionTest, WhatIsNoneIsSaid) {
  struct {
    const char* text;
    const char* why;
  } cases[] = {
      {"null", "the position is damaged: is null instead of a JSON object"},
      {"[0, 0, 0, 0]", "is [0,0,0,0] instead of a JSON object"},
      {R"({"epoch": 0, "rows": 0, "window": 0})", "window_first_row is missing"},
      {R"({"epoch": "0", "rows": 0, "window": 0, "window_first_row": 0})", "epoch is \"0\""},
      {R"({"epoch": 0, "rows": 1.5, "window": 0, "window_first_row": 0})", "rows is 1.5"},
      {R"({"epoch": 0, "rows": 1, "window": 18446744073709551615, "window_first_row": 0})",
       "window is 18446744073709551615"},
      {R"({"epoch": -1, "rows": 0, "window": 0, "window_first_row": 0})", "epoch is -1"},
      {R"({"epoch": 0, "rows": 9223372036854775807, "window": 0, "window_first_row": 0})",
       "rows is 9223372036854775807; expected a whole number from 0 to 281474976710656"},
      {R"({"epoch": 9223372036854775807, "rows": 0, "window": 0, "window_first_row": 0})",
       "epoch is 9223372036854775807"},
      {R"({"epoch": 0, "rows": 1, "window": 2, "window_first_row": 1})", "begin before the last"},
  };
  for (const auto& one : cases) {
    Error error = error_of([&] { Position::from_json(Json::parse(one.text), "train"); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << one.text;
    EXPECT_THAT(error.what(), HasSubstr("data set 'train' cannot go on at the position"));
    EXPECT_THAT(error.what(), HasSubstr(one.why));
  }
  Json not_text = {{"epoch", std::string("\xff\xfe")}};
  EXPECT_EQ(error_of([&] { Position::from_json(not_text, "train"); }).kind(), ErrorKind::kCorrupt);
}

// A worker sends its position as numbers, which nothing has checked.
TEST(PositionTest, NumbersThatNoDataSetHasAreRefused) {
  const Position wrong[] = {{INT64_MAX, 0, 0, 0},
                            {0, INT64_MAX, 0, 0},
                            {0, kMaxRows, INT64_MAX, 0},
                            {0, kMaxRows + 1, 1, kMaxRows},
                            {-1, 0, 0, 0}};
  for (const auto& position : wrong) {
    Error error = error_of([&] { check_position(position, "train"); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << position.to_json();
    EXPECT_THAT(error.what(), HasSubstr("must be from 0 to 281474976710656"));
  }
  EXPECT_NO_THROW(check_position({kMaxRows, kMaxRows, kMaxRows, kMaxRows - 1}, "train"));
}

}  // namespace
}  // namespace manta::data
