#include "manta/tune/space.h"

#include <gmock/gmock.h>

#include <set>

#include "manta/base/error_of_internal.h"
#include "manta/tune/searcher.h"
#include "manta/tune/space_internal.h"

namespace manta::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

Json drawn_config(const Space& space, uint64_t number, uint64_t grid_index = 0) {
  Random random(3, number);
  return resolve(space, draw(space, grid_index, random));
}

TEST(SpaceTest, BracesAreReadAsJson) {
  auto same = [](const Space& space, const Json& json) {
    EXPECT_EQ(drawn_config(space, 0), json);
    bool whole = true;
    EXPECT_EQ(to_json(space, &whole), to_json(Space(json), &whole)) << json;
  };
  same({}, Json::object());
  same({{"a", 1}}, {{"a", 1}});
  same({{"a", "b"}}, {{"a", "b"}});
  same({{"a", {1, 2.5, "x", nullptr, true}}}, {{"a", {1, 2.5, "x", nullptr, true}}});
  same({{"a", {{"b", {{"c", 1}}}, {"d", std::string("text")}}}},
       {{"a", {{"b", {{"c", 1}}}, {"d", "text"}}}});
  same({{"metrics", {"logloss", "error"}}}, {{"metrics", {"logloss", "error"}}});
  same({{"json", Json{{"a", {1, 2}}}}}, {{"json", {{"a", {1, 2}}}}});
  EXPECT_THAT(message_of([] { Space({{"a", 1}, {"a", 2}}); }), HasSubstr("has 'a' twice"));
}

TEST(SpaceTest, ValuesAreDrawnWhereTheyStand) {
  Space space = {{"lr", loguniform(1e-4, 1e-1)},
                 {"layers", {64, choice({32, 128})}},
                 {"net", {{"act", choice({"relu", "tanh"})}, {"bias", choice(true, "some", 2.5)}}}};
  std::set<Json> activations, biases, sizes;
  for (uint64_t number = 0; number < 100; ++number) {
    Json config = drawn_config(space, number);
    EXPECT_GE(config.at("lr"), 1e-4);
    EXPECT_LT(config.at("lr"), 1e-1);
    EXPECT_EQ(config.at("layers").at(0), 64);
    sizes.insert(config.at("layers").at(1));
    activations.insert(config.at("net").at("act"));
    biases.insert(config.at("net").at("bias"));
  }
  EXPECT_THAT(sizes, ElementsAre(32, 128));
  EXPECT_THAT(activations, ElementsAre("relu", "tanh"));
  EXPECT_THAT(biases, ElementsAre(true, 2.5, "some"));
}

TEST(SpaceTest, AChoiceOfSpacesIsConditional) {
  Space space = {
      {"model", choice<Space>({{{"kind", "svm"}, {"C", loguniform(1e-3, 1e3)}},
                               {{"kind", "net"}, {"layers", choice({1, 2})}, {"a/b~", 1}}})}};
  int nets = 0;
  for (uint64_t number = 0; number < 100; ++number) {
    Random random(3, number);
    Assignment drawn = draw(space, 0, random);
    Json model = resolve(space, drawn).at("model");
    bool is_net = model.at("kind") == "net";
    nets += is_net;
    EXPECT_EQ(model.contains("layers"), is_net);
    EXPECT_EQ(model.contains("C"), !is_net);
    EXPECT_EQ(drawn.size(), 2u);
    EXPECT_TRUE(drawn.contains(is_net ? "model[1]/layers" : "model[0]/C")) << Json(drawn);
  }
  EXPECT_GT(nets, 20);
  EXPECT_LT(nets, 80);
}

TEST(SpaceTest, GridsAreWalkedWholeTheLastFastest) {
  Space space = {{"a", grid_search({1, 2})}, {"b", {grid_search({"x", "y", "z"}), 0}}, {"c", 3}};
  EXPECT_EQ(grid_size(space), 6u);
  std::vector<std::string> points;
  for (uint64_t i = 0; i < 6; ++i) {
    Json config = drawn_config(space, i, i);
    points.push_back(config.at("a").dump() + config.at("b").at(0).get<std::string>());
  }
  EXPECT_THAT(points, ElementsAre("1x", "1y", "1z", "2x", "2y", "2z"));
}

TEST(SpaceTest, TruthValuesAreValuesAsOthers) {
  Space space = {{"a", grid_search({false, true, false})}, {"b", choice({true, true})}};
  std::vector<bool> seen;
  for (uint64_t point = 0; point < 3; ++point) {
    Json config = drawn_config(space, point, point);
    seen.push_back(config.at("a").get<bool>());
    EXPECT_EQ(config.at("b"), true);
  }
  EXPECT_THAT(seen, ElementsAre(false, true, false));
}

TEST(SpaceTest, GridsOfSpacesHaveTheSumOfTheirPoints) {
  Space space = {{"m", grid_search<Space>({{{"k", "a"}, {"n", grid_search({1, 2, 3})}},
                                           {{"k", "b"}, {"n", uniform(0, 1)}}})},
                 {"s", grid_search({10, 20})}};
  EXPECT_EQ(grid_size(space), 8u);
  std::set<std::string> seen;
  for (uint64_t i = 0; i < 8; ++i) {
    Json config = drawn_config(space, i, i);
    if (config.at("m").at("k") == "b") config["m"]["n"] = 0;
    seen.insert(config.dump());
  }
  EXPECT_EQ(seen.size(), 8u);
  EXPECT_THAT(message_of([&] {
                grid_size({{"a", choice<Space>({space, space})}});
              }),
              HasSubstr("the choice at 'a' has a grid_search in it"));
  std::vector<int> many(1 << 15);
  Space large = {{"a", grid_search(many)}, {"b", grid_search(many)}, {"c", grid_search(many)}};
  EXPECT_THAT(message_of([&] { grid_size(large); }), HasSubstr("points together"));
}

TEST(SpaceTest, FunctionsSeeWhatIsDrawnBefore) {
  Space space = {{"a", randint(5, 10)},
                 {"b", sample_from([](const Json& config, Random& random) {
                    return Json(random.integer(config.at("a").get<uint64_t>()));
                  })},
                 {"c", sample_from([](const Json& config, Random&) {
                    return Json(config.at("b").get<int>() * 2);
                  })}};
  for (uint64_t number = 0; number < 50; ++number) {
    Json config = drawn_config(space, number);
    EXPECT_LT(config.at("b"), config.at("a"));
    EXPECT_EQ(config.at("c"), 2 * config.at("b").get<int>());
    EXPECT_EQ(drawn_config(space, number), config);
  }
  bool whole = true;
  to_json(space, &whole);
  EXPECT_FALSE(whole);
}

TEST(SpaceTest, NothingToChooseFromIsAnError) {
  EXPECT_THAT(message_of([] {
                Space({{"a", choice(std::vector<int>())}});
              }),
              HasSubstr("choice: there are no values"));
  EXPECT_THAT(message_of([] {
                Space({{"a", grid_search(std::vector<int>())}});
              }),
              HasSubstr("grid_search: there are no values"));
}

TEST(SpaceTest, IsStoredAndRead) {
  Space space = {{"a", uniform(0, 1)},
                 {"b", {1, choice({"x", "y"}), {{"c", grid_search({1, 2})}}}},
                 {"d", choice<Space>({{{"e", randint(0, 5)}}, {{"f", nullptr}}})}};
  bool whole = true;
  Json json = Json::parse(to_json(space, &whole).dump());
  EXPECT_TRUE(whole);
  Space again = space_from_json(json, "a file");
  EXPECT_EQ(to_json(again, &whole), json);
  for (uint64_t n = 0; n < 20; ++n) EXPECT_EQ(drawn_config(again, n, 1), drawn_config(space, n, 1));
  for (const char* bad : {R"({})", R"([])", R"({"grid": []})", R"({"choice": 1})",
                          R"({"object": []})", R"({"domain": {}})", R"({"array": [1]})"}) {
    EXPECT_EQ(error_of([&] { space_from_json(Json::parse(bad), "a file"); }).kind(),
              ErrorKind::kCorrupt)
        << bad;
  }
}

TEST(SpaceTest, AnAssignmentThatDoesNotFitIsDamage) {
  Space space = {{"a", uniform(0, 1)}, {"b", choice({1, 2})}};
  for (const Assignment& bad : std::vector<Assignment>{{},
                                                       {{"a", 0.5}},
                                                       {{"a", 0.5}, {"b", 2}},
                                                       {{"a", 0.5}, {"b", -1}},
                                                       {{"a", 0.5}, {"b", "x"}}})
    EXPECT_EQ(error_of([&] { resolve(space, bad); }).kind(), ErrorKind::kCorrupt);
}

TEST(RandomSearchTest, TriesAllPointsOfGridsAsOftenAsAsked) {
  SearchProblem problem{{{"g", grid_search({1, 2, 3})}, {"x", uniform(0, 1)}}, {}, 2, 5};
  auto searcher = AnySearcher().make(problem);
  std::vector<int> grid;
  std::set<double> values;
  for (uint64_t number = 0; auto assignment = searcher->suggest(number); ++number) {
    Json config = resolve(problem.space, *assignment);
    grid.push_back(config.at("g"));
    values.insert(config.at("x").get<double>());
  }
  EXPECT_THAT(grid, ElementsAre(1, 2, 3, 1, 2, 3));
  EXPECT_EQ(values.size(), 6u);
  // Whatever was asked for before.
  auto other = AnySearcher().make(problem);
  EXPECT_EQ(*other->suggest(4), *searcher->suggest(4));
}

}  // namespace
}  // namespace manta::tune
