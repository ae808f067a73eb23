#include "manta/data/plan_function.h"

#include <gmock/gmock.h>

#include <atomic>
#include <map>

#include "manta/base/names_internal.h"
#include "manta/core/object_ref.h"
#include "manta/core/remote.h"
#include "manta/data/dataset.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/plan_internal.h"

namespace manta::data {

// Not in the anonymous namespace, so that their names look like those of a user's functions.
namespace plan_function_test {

using Batch = std::shared_ptr<arrow::RecordBatch>;

Batch with_ids(const Batch& batch, const std::function<int64_t(int64_t)>& change) {
  arrow::Int64Builder ids;
  for (int64_t id : ints(*batch, "id")) check(ids.Append(change(id)), "id");
  auto column = check(ids.Finish(), "ids");
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("id", arrow::int64())}),
                                  column->length(), {column});
}

struct Scale {
  int64_t factor = 1;
  int64_t added = 0;
  int64_t not_written = 0;  // serialize leaves it out
  template <class Archive>
  void serialize(Archive& archive) {
    archive(factor, added);
    ++uses;
  }
  static inline std::atomic<int> uses = 0;
};
Batch scale(const Batch& batch, const Scale& by) {
  return with_ids(batch, [&](int64_t id) { return id * by.factor + by.added + by.not_written; });
}

Batch twice(const Batch& batch) {
  return with_ids(batch, [](int64_t id) { return 2 * id; });
}
Batch add_json(const Batch& batch, const Json& args) {
  return with_ids(batch, [&](int64_t id) { return id + args.at("add").get<int64_t>(); });
}
Batch again(const Batch& batch) { return batch; }
Batch fail(const Batch& batch) {
  if (batch->num_rows() > 0) throw 42;  // NOLINT
  return batch;
}

static const auto named_twice = named("twice", twice);
static const auto named_add = named("add_json", add_json);
static const auto named_scale = named("scale", scale);
static const auto named_lambda =
    named("lambda", [](const Batch& batch) { return batch->Slice(0, 1); });
static const auto first_of_two = named("two of a name", twice);
static const auto second_of_two = named("two of a name", again);
static const auto same_again = named("twice", twice);

}  // namespace plan_function_test

namespace {

using namespace plan_function_test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string to_bytes(const auto& value) {
  std::string bytes;
  OutArchive archive(bytes);
  archive(value);
  return bytes;
}

class PlanFunctionTest : public testing::Test {
 protected:
  Dataset rows(int64_t count = 3, int64_t row_group_rows = 2) {
    return read_parquet(folder_.write_rows("a.parquet", 0, count, row_group_rows));
  }
  // The plan as another process of this run gets it, and its ids there.
  static std::vector<int64_t> elsewhere(const Dataset& dataset) {
    return get(
        remote([](const WirePlan& plan) { return ints(*Dataset(plan.plan()).to_table(), "id"); },
               WirePlan(*dataset.plan())));
  }
  static std::vector<int64_t> here(const Dataset& dataset) { return ints(*dataset.take(), "id"); }

  ParquetFolder folder_;
};

TEST_F(PlanFunctionTest, ArgumentsTravel) {
  auto plain = rows().map_batches(scale, {.factor = 3, .added = 1});
  EXPECT_THAT(here(plain), ElementsAre(1, 4, 7));
  EXPECT_THAT(elsewhere(plain), ElementsAre(1, 4, 7));

  auto lambda = rows().map_batches(
      [](const Batch& batch, const std::map<std::string, std::vector<int64_t>>& tables) {
        return with_ids(batch, [&](int64_t id) { return tables.at("t")[static_cast<size_t>(id)]; });
      },
      {{"t", {7, 5, 9}}}, {.batch_size = 1});
  EXPECT_THAT(here(lambda), ElementsAre(7, 5, 9));
  EXPECT_THAT(elsewhere(lambda), ElementsAre(7, 5, 9));

  auto json = rows().map_batches(add_json, {{"add", 100}});
  EXPECT_THAT(elsewhere(json), ElementsAre(100, 101, 102));
  auto text = rows().map_batches(
      [](const Batch& batch, const std::string& digits) {
        return with_ids(batch, [&](int64_t id) { return id + std::stoll(digits); });
      },
      "40");
  EXPECT_THAT(elsewhere(text), ElementsAre(40, 41, 42));
}

// Large arguments lie in shared memory, whose descriptor goes with the message.
TEST_F(PlanFunctionTest, TablesTravelThroughSharedMemory) {
  arrow::Int64Builder values;
  for (int64_t i = 0; i < 50000; ++i) check(values.Append(1000 * i), "a value");
  auto table = arrow::Table::Make(arrow::schema({arrow::field("value", arrow::int64())}),
                                  {check(values.Finish(), "values")});
  auto dataset = rows(30000, 10000)
                     .map_batches(
                         [](const Batch& batch, const std::shared_ptr<arrow::Table>& table) {
                           auto values = ints(*table, "value");
                           return with_ids(batch, [&](int64_t id) {
                             return values.at(static_cast<size_t>(id) + 20000);
                           });
                         },
                         table);
  EXPECT_EQ(ints(*dataset.take(1), "id"), std::vector<int64_t>{20'000'000});
  std::string bytes;
  OutArchive out(bytes);
  WirePlan wire(*dataset.plan());
  out(wire);
  EXPECT_LT(bytes.size(), 10000u);
  ASSERT_EQ(out.fds.size(), 1u);
  InArchive in(bytes);
  in.fds.emplace_back(::dup(out.fds[0].fd));
  WirePlan received;
  in(received);
  EXPECT_EQ(ints(*Dataset(received.plan()).to_table(), "id"), ints(*dataset.to_table(), "id"));
}

TEST_F(PlanFunctionTest, APreviewIsWhatTrains) {
  Scale by{.factor = 2, .added = 0, .not_written = 1000};
  auto dataset = rows(100, 10).map_batches(scale, by, {.batch_size = 3});
  EXPECT_EQ(ints(*dataset.take(2), "id"), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(ints(*dataset.to_table(), "id"), elsewhere(dataset));
}

TEST_F(PlanFunctionTest, ArgumentsAreReadOncePerProcess) {
  auto dataset = rows(100, 10).map_batches(scale, Scale{.factor = 2}, {.batch_size = 3});
  int uses = Scale::uses;
  dataset.to_table();
  dataset.filter(col("id") > 3).count();
  EXPECT_EQ(Scale::uses, uses);
}

TEST_F(PlanFunctionTest, ReferencesAreNoArguments) {
  auto sum = [](const Batch& batch, const std::vector<ObjectRef<int>>&) { return batch; };
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { rows().map_batches(sum, {put(1)}); }),
              HasSubstr("get(ref)"));
}

TEST_F(PlanFunctionTest, NamedFunctionsAreStored) {
  auto dataset = rows()
                     .map_batches(named_twice)
                     .map_batches(named_add, {{"add", 5}})
                     .map_batches(named_lambda, {.batch_size = 2});
  auto json = dataset.to_json();
  EXPECT_EQ(json.at("functions"),
            Json::parse(R"([{"name": "twice"}, {"name": "add_json", "args": {"add": 5}},
                            {"name": "lambda"}])"));
  EXPECT_EQ(json.at("operations")[1],
            Json::parse(R"({"op": "map_batches", "function": 1, "rows": 4096})"));
  auto copy = Dataset::from_json(Json::parse(json.dump()));
  EXPECT_EQ(copy.to_json(), json);
  EXPECT_THAT(ints(*copy.to_table(), "id"), ElementsAre(5, 9));
  EXPECT_THAT(elsewhere(dataset), ElementsAre(5, 9));
  EXPECT_THAT(copy.explain(), HasSubstr("map_batches(add_json, {\"add\":5}, batch_size = 4096)"));
  auto ids = remote(
      [](const std::string& plan) {
        return ints(*Dataset::from_json(Json::parse(plan)).to_table(), "id");
      },
      json.dump());
  EXPECT_THAT(get(ids), ElementsAre(5, 9));
}

TEST_F(PlanFunctionTest, OtherFunctionsAreNot) {
  auto refused = [](const Dataset& dataset) {
    EXPECT_NE(dataset.plan()->why_not_stored(), "");
    return message_of(ErrorKind::kInvalidArgument, [&] { dataset.to_json(); });
  };
  EXPECT_THAT(refused(rows().map_batches(twice)),
              AllOf(HasSubstr("plan_function_test::twice"), HasSubstr("manta::named(")));
  EXPECT_THAT(refused(rows().map_batches(add_json, {{"add", 1}})), HasSubstr("add_json"));
  EXPECT_THAT(refused(rows().map_batches(named_scale, {.factor = 2})),
              AllOf(HasSubstr("'scale'"), HasSubstr("const Json&")));
  EXPECT_EQ(rows().map_batches(named_twice).plan()->why_not_stored(), "");
}

TEST_F(PlanFunctionTest, OneNameForTwoFunctionsIsAnError) {
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { rows().map_batches(first_of_two); }),
              HasSubstr("two functions have the name \"two of a name\""));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { rows().map_batches(second_of_two); }),
              HasSubstr("\"two of a name\""));
  EXPECT_THAT(here(rows().map_batches(same_again)), ElementsAre(0, 2, 4));
}

TEST_F(PlanFunctionTest, AnUnknownNameIsAnErrorThatListsThose) {
  auto json = rows().map_batches(named_twice).to_json();
  json["functions"][0]["name"] = "thrice";
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { Dataset::from_json(json); }),
              AllOf(HasSubstr("\"thrice\""), HasSubstr("'add_json', "), HasSubstr("'twice'"),
                    HasSubstr("at namespace scope")));
}

TEST_F(PlanFunctionTest, StoredArgumentsMustFit) {
  auto refused = [&](const Json& function) {
    auto json = rows().map_batches(named_twice).to_json();
    json["functions"][0] = function;
    return message_of(ErrorKind::kInvalidArgument, [&] { Dataset::from_json(json); });
  };
  EXPECT_THAT(refused({{"name", "twice"}, {"args", 1}}), HasSubstr("'twice'"));
  EXPECT_THAT(refused({{"name", "add_json"}}), HasSubstr("'add_json'"));
  EXPECT_THAT(refused({{"name", "scale"}, {"args", 1}}), HasSubstr("another type"));
  EXPECT_THAT(refused({{"name", 7}}), HasSubstr("functions[0].name is 7; expected a text"));
  EXPECT_THAT(refused("twice"), HasSubstr("functions[0] is \"twice\" instead of a JSON object"));
}

// JSON as earlier versions wrote it, and as an attacker may write it: an address is never followed.
TEST_F(PlanFunctionTest, JsonWithAddressesIsRefused) {
  auto function = detail::make_batch_function(&twice);
  Json address = {{"build_id", to_hex(function.target.build_id)},
                  {"offset", function.target.offset}};
  Json thunk = {{"build_id", to_hex(function.thunk.build_id)}, {"offset", function.thunk.offset}};
  auto json = rows().to_json();
  json["operations"] = {
      {{"op", "map_batches"}, {"thunk", thunk}, {"target", address}, {"rows", 5}}};
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { Dataset::from_json(json); }),
              HasSubstr("operations[0].function is missing"));
  json["functions"] = {{{"thunk", thunk}, {"target", address}}};
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { Dataset::from_json(json); }),
              HasSubstr("functions[0].name is missing"));
}

int not_on_batches(int x) { return x; }

TEST_F(PlanFunctionTest, OnTheWireOnlyFunctionsOfBatchesAreTaken) {
  auto load = [](const Function& function) {
    std::string bytes;
    OutArchive out(bytes);
    out(function, Value(), std::string());
    InArchive in(bytes);
    PlanFunction read;
    in(read);
  };
  load(detail::make_batch_function(&twice));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] { load(manta::detail::make_function(&not_on_batches)); }),
              HasSubstr("no function that this program gives to map_batches"));
  auto inside = detail::make_batch_function(&twice);
  inside.target.offset += 1;
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { load(inside); }),
              HasSubstr("where no function starts"));
  auto nowhere = detail::make_batch_function(&twice);
  nowhere.target = {};
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { load(nowhere); }),
              HasSubstr("names no function"));
}

TEST_F(PlanFunctionTest, AnythingThrownIsTheUsersCode) {
  EXPECT_THAT(message_of(ErrorKind::kUserCode, [&] { rows().map_batches(fail).to_table(); }),
              AllOf(HasSubstr("plan_function_test::fail"), HasSubstr("no std::exception")));
}

TEST_F(PlanFunctionTest, AColumnNameTwiceIsTheUsersError) {
  auto doubled = rows().map_batches([](const Batch& batch) {
    return check(batch->AddColumn(1, "id", batch->column(0)), "adding a column");
  });
  EXPECT_THAT(message_of(ErrorKind::kUserCode, [&] { doubled.to_table(); }),
              AllOf(HasSubstr("'id'"), HasSubstr("twice")));
}

TEST_F(PlanFunctionTest, BatchesOfDifferentColumnsAreTheUsersError) {
  auto changing = rows(10, 2).map_batches([](const Batch& batch) {
    return ints(*batch, "id")[0] < 6 ? batch : check(batch->SelectColumns({0, 1}), "columns");
  });
  for (auto read : {+[](const Dataset& d) { d.to_table(); },
                    +[](const Dataset& d) {
                      for (auto& batch : d.iter_batches({.batch_size = 3})) (void)batch;
                    }}) {
    EXPECT_THAT(message_of(ErrorKind::kUserCode, [&] { read(changing); }),
                AllOf(HasSubstr("{id: int64, half: double, text: string} for row group 0 of"),
                      HasSubstr("then {id: int64, half: double} for row group 3 of")));
  }
}

TEST_F(PlanFunctionTest, BatchesOfDifferentColumnsInOneRowGroupNameItAndTheFunction) {
  auto changing = rows(10, 10).map_batches(
      [](const Batch& batch) {
        return ints(*batch, "id")[0] < 6 ? batch : check(batch->SelectColumns({0, 1}), "columns");
      },
      {.batch_size = 2});
  for (const auto& dataset : {changing, changing.window_shuffle({.rows = 10, .seed = 1})}) {
    EXPECT_THAT(message_of(ErrorKind::kUserCode, [&] { dataset.to_table(); }),
                AllOf(HasSubstr("of map_batches, on row group 0 of '"),
                      HasSubstr("{id: int64, half: double, text: string} first, then {id: int64, "
                                "half: double}")));
  }
}

TEST_F(PlanFunctionTest, DroppingAColumnThatAFunctionDidNotGiveIsAnError) {
  auto dropped = rows().map_batches(twice).drop_columns({"half"});
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { dropped.to_table(); }),
              HasSubstr("no column 'half'"));
}

}  // namespace
}  // namespace manta::data
