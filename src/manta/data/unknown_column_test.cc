#include <gmock/gmock.h>

#include "manta/data/unknown_column_internal.h"

namespace manta::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(UnknownColumnTest, NearNamesComeNearestFirst) {
  const std::vector<std::string> there = {"tip", "fare_amount", "fare", "Passenger Count", "a"};
  EXPECT_THAT(near_matches("fare_amout", there), ElementsAre("fare_amount", "fare"));
  EXPECT_THAT(near_matches("FARE", there), ElementsAre("fare", "fare_amount"));
  EXPECT_THAT(near_matches("passenger_count", there), ElementsAre("Passenger Count"));
  EXPECT_THAT(near_matches("pit", there), IsEmpty());
  EXPECT_THAT(near_matches("tpi", there), ElementsAre("tip"));
  EXPECT_THAT(near_matches("b", there), IsEmpty());
  EXPECT_THAT(near_matches("A", there), ElementsAre("a"));
  EXPECT_THAT(near_matches("", there), IsEmpty());
}

TEST(UnknownColumnTest, TheErrorListsThemAndSomeOfTheOthers) {
  EXPECT_EQ(no_such_column("cost", {"fare", "tip"}),
            "there is no column 'cost'; there are 'fare', 'tip'");
  EXPECT_EQ(no_such_column("fair", {"fare", "tip"}),
            "there is no column 'fair'; did you mean 'fare'? There are 'fare', 'tip'");
  EXPECT_EQ(no_such_column("x", {}), "there is no column 'x'; there are none");
  EXPECT_EQ(no_such_column("X", {"x"}), "there is no column 'X'; did you mean 'x'? There is 'x'");
  std::vector<std::string> many;
  for (int i = 0; i < 500; ++i) many.push_back("c" + std::to_string(i));
  auto message = no_such_column("c1234", many);
  EXPECT_THAT(message, HasSubstr("did you mean 'c123' or 'c124' or 'c134'?"));
  EXPECT_THAT(message, HasSubstr("'c19' and 480 more"));
}

}  // namespace
}  // namespace manta::data
