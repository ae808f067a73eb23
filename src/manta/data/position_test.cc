#include <gmock/gmock.h>

#include "manta/base/error_of_internal.h"
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
      {"null", "a position is a JSON object"},
      {"[0, 0, 0, 0]", "a position is a JSON object"},
      {R"({"epoch": 0, "rows": 0, "window": 0})", "it has no 'window_first_row'"},
      {R"({"epoch": "0", "rows": 0, "window": 0, "window_first_row": 0})",
       "'epoch' is not a whole"},
      {R"({"epoch": 0, "rows": 1.5, "window": 0, "window_first_row": 0})", "'rows' is not a whole"},
      {R"({"epoch": 0, "rows": 1, "window": 18446744073709551615, "window_first_row": 0})",
       "'window' is not a whole"},
      {R"({"epoch": -1, "rows": 0, "window": 0, "window_first_row": 0})", "may be negative"},
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

}  // namespace
}  // namespace manta::data
