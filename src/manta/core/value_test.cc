#include "manta/core/value.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "manta/base/error_internal.h"

namespace manta {
namespace {

template <class T>
T round_trip(const T& value) {
  return from_value<T>(to_value(value));
}

struct Point {
  int x = 0;
  double y = 0;
  bool operator==(const Point&) const = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(x, y);
  }
};

enum class Colour : uint8_t { kRed, kBlue = 200 };

struct Everything {
  std::string name;
  std::vector<Point> points;
  std::map<std::string, std::vector<int>> groups;
  std::optional<Point> maybe = {}, nothing = {};
  std::variant<int, std::string, Point> either;
  std::tuple<int, std::string> pair;
  std::unordered_map<int, std::set<char>> sets;
  std::array<double, 3> three{};
  std::vector<bool> bits;
  Colour colour = Colour::kRed;
  bool operator==(const Everything&) const = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, points, groups, maybe, nothing, either, pair, sets, three, bits, colour);
  }
};

Everything everything() {
  return {.name = std::string("a\0b", 3),
          .points = {{1, 2.5}, {-1, 1e300}},
          .groups = {{"", {}}, {"x", {1, 2, 3}}},
          .maybe = Point{3, 4},
          .either = "text",
          .pair = {7, "seven"},
          .sets = {{1, {'a', 'b'}}, {-1, {}}},
          .three = {1, 2, 3},
          .bits = {true, false, true},
          .colour = Colour::kBlue};
}

TEST(ValueTest, PlainTypesRoundTrip) {
  EXPECT_EQ(round_trip(42), 42);
  EXPECT_EQ(round_trip(std::numeric_limits<int64_t>::min()), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(round_trip(true), true);
  EXPECT_EQ(round_trip('x'), 'x');
  EXPECT_TRUE(std::isnan(round_trip(std::nan(""))));
  EXPECT_EQ(round_trip(1e-300), 1e-300);
  EXPECT_EQ(round_trip(std::string()), "");
  EXPECT_EQ(round_trip(std::string("text")), "text");
  EXPECT_EQ(round_trip(std::vector<double>{}), std::vector<double>{});
  EXPECT_EQ(round_trip(std::vector<double>{1, 2}), (std::vector<double>{1, 2}));
  EXPECT_EQ(round_trip(std::vector<std::string>{"a", ""}), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(round_trip(std::optional<int>()), std::nullopt);
  EXPECT_EQ(round_trip(std::chrono::nanoseconds(5)), std::chrono::nanoseconds(5));
  EXPECT_EQ(*round_trip(std::make_shared<int>(5)), 5);
  EXPECT_EQ(round_trip(std::shared_ptr<int>()), nullptr);
  EXPECT_EQ(*from_value<std::unique_ptr<int>>(to_value(std::make_unique<int>(6))), 6);
}

TEST(ValueTest, NestedStructuresRoundTrip) {
  EXPECT_EQ(round_trip(everything()), everything());
  EXPECT_EQ(round_trip(Everything()), Everything());
  std::map<int, std::vector<Everything>> nested{{1, {everything(), {}}}, {2, {}}};
  EXPECT_EQ(round_trip(nested), nested);
}

TEST(ValueTest, OnlyLargeBytesAreShared) {
  for (size_t size : {0u, 1u, 99000u, 100001u, 5000000u}) {
    SCOPED_TRACE(size);
    std::string text(size, 'x');
    Value value = to_value(text);
    EXPECT_EQ(value.memory != nullptr, size > kLargeBuffer);
    EXPECT_EQ(value.inline_body.empty(), size > kLargeBuffer);
    EXPECT_EQ(value.body().size(), size + 8);
    EXPECT_TRUE(from_value<std::string>(value) == text);
  }
  std::vector<double> numbers(1000000, 0.5);
  EXPECT_TRUE(to_value(numbers).memory);
  EXPECT_EQ(round_trip(numbers), numbers);
}

// ---- Arrow

// Whether every buffer of the array lies in the value's shared pages.
bool lies_in(const arrow::ArrayData& data, const SharedMemory& memory) {
  for (const auto& buffer : data.buffers) {
    if (!buffer || buffer->size() == 0) continue;
    if (buffer->data() < memory.data() ||
        buffer->data() + buffer->size() > memory.data() + memory.size())
      return false;
  }
  for (const auto& child : data.child_data) {
    if (!lies_in(*child, memory)) return false;
  }
  return !data.dictionary || lies_in(*data.dictionary, memory);
}

template <class Builder, class Append>
std::shared_ptr<arrow::Array> build(Builder builder, int64_t rows, Append append) {
  for (int64_t i = 0; i < rows; ++i) EXPECT_TRUE(append(builder, i).ok());
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::RecordBatch> make_batch(int64_t rows) {
  auto* pool = arrow::default_memory_pool();
  auto numbers = build(arrow::Int64Builder(), rows, [](auto& b, int64_t i) { return b.Append(i); });
  auto nulls = build(arrow::DoubleBuilder(), rows, [](auto& b, int64_t i) {
    return i % 3 == 0 ? b.AppendNull() : b.Append(static_cast<double>(i) / 2);
  });
  auto strings = build(arrow::StringBuilder(), rows, [](auto& b, int64_t i) {
    return i % 5 == 0 ? b.AppendNull() : b.Append(std::string(static_cast<size_t>(i % 7), 's'));
  });
  auto bools =
      build(arrow::BooleanBuilder(), rows, [](auto& b, int64_t i) { return b.Append(i % 2 == 0); });
  auto items = std::make_shared<arrow::Int32Builder>();
  auto lists = build(arrow::ListBuilder(pool, items), rows, [&](auto& b, int64_t i) {
    ARROW_RETURN_NOT_OK(b.Append());
    for (int64_t k = 0; k < i % 4; ++k) {
      ARROW_RETURN_NOT_OK(items->Append(static_cast<int32_t>(k)));
    }
    return arrow::Status::OK();
  });
  auto words = build(arrow::StringDictionaryBuilder(), rows,
                     [](auto& b, int64_t i) { return b.Append(i % 2 ? "odd" : "even"); });
  auto schema = arrow::schema(
      {arrow::field("numbers", arrow::int64()), arrow::field("nulls", arrow::float64()),
       arrow::field("strings", arrow::utf8()), arrow::field("bools", arrow::boolean()),
       arrow::field("lists", lists->type()), arrow::field("words", words->type())},
      arrow::key_value_metadata({"made"}, {"here"}));
  return arrow::RecordBatch::Make(schema, rows, {numbers, nulls, strings, bools, lists, words});
}

std::shared_ptr<arrow::Table> make_table(int64_t rows, int chunks = 1) {
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches(static_cast<size_t>(chunks),
                                                           make_batch(rows / chunks));
  return arrow::Table::FromRecordBatches(batches).ValueOrDie();
}

std::shared_ptr<arrow::Table> numbers_table(int64_t rows) {
  auto numbers = build(arrow::Int64Builder(), rows, [](auto& b, int64_t i) { return b.Append(i); });
  return arrow::Table::Make(arrow::schema({arrow::field("numbers", arrow::int64())}), {numbers});
}

TEST(ValueTest, TablesRoundTrip) {
  auto large = make_table(50000);
  struct Case {
    const char* name;
    std::shared_ptr<arrow::Table> table;
  };
  for (const auto& [name, table] :
       {Case{"small", make_table(10)}, Case{"large", large}, Case{"chunks", make_table(60000, 3)},
        Case{"small chunks", make_table(12, 3)}, Case{"no rows", make_table(0)},
        Case{"no columns", arrow::Table::Make(arrow::schema({}), arrow::ChunkedArrayVector(), 0)},
        Case{"slice", large->Slice(12345, 777)}, Case{"slice from 3", make_table(20)->Slice(3)},
        Case{"empty slice", large->Slice(100, 0)}, Case{"one column", numbers_table(100000)}}) {
    SCOPED_TRACE(name);
    auto read = round_trip(table);
    ASSERT_TRUE(read);
    EXPECT_TRUE(read->ValidateFull().ok());
    EXPECT_TRUE(read->schema()->Equals(*table->schema(), true));
    EXPECT_TRUE(read->Equals(*table));
  }
}

TEST(ValueTest, RecordBatchesRoundTrip) {
  for (const auto& batch : {make_batch(10), make_batch(50000), make_batch(0),
                            make_batch(50000)->Slice(777, 100), make_batch(9)->Slice(4)}) {
    SCOPED_TRACE(batch->num_rows());
    auto read = round_trip(batch);
    ASSERT_TRUE(read);
    EXPECT_TRUE(read->ValidateFull().ok());
    EXPECT_TRUE(read->Equals(*batch, /*check_metadata=*/true));
  }
}

TEST(ValueTest, BuffersRoundTrip) {
  for (size_t size : {0u, 1u, 99000u, 100001u, 3000000u}) {
    auto buffer = arrow::Buffer::FromString(std::string(size, 'b'));
    Value value = to_value(buffer);
    EXPECT_EQ(value.memory != nullptr, size > kLargeBuffer);
    auto read = from_value<std::shared_ptr<arrow::Buffer>>(value);
    EXPECT_TRUE(read->Equals(*buffer));
  }
}

TEST(ValueTest, NullPointersStayNull) {
  EXPECT_EQ(round_trip(std::shared_ptr<arrow::Table>()), nullptr);
  EXPECT_EQ(round_trip(std::shared_ptr<arrow::RecordBatch>()), nullptr);
  EXPECT_EQ(round_trip(std::shared_ptr<arrow::Buffer>()), nullptr);
}

TEST(ValueTest, LargeTablesAreReadInPlace) {
  for (const auto& table : {make_table(50000), make_table(60000, 3), numbers_table(100000)}) {
    Value value = to_value(table);
    ASSERT_TRUE(value.memory);
    EXPECT_LT(value.inline_body.size(), 100u);
    auto read = from_value<std::shared_ptr<arrow::Table>>(value);
    for (const auto& column : read->columns()) {
      for (const auto& chunk : column->chunks()) {
        EXPECT_TRUE(lies_in(*chunk->data(), *value.memory)) << column->type()->ToString();
      }
    }
  }
}

TEST(ValueTest, LargeRecordBatchesAndBuffersAreReadInPlace) {
  Value value = to_value(make_batch(50000));
  ASSERT_TRUE(value.memory);
  auto batch = from_value<std::shared_ptr<arrow::RecordBatch>>(value);
  for (const auto& column : batch->columns()) EXPECT_TRUE(lies_in(*column->data(), *value.memory));

  value = to_value(arrow::Buffer::FromString(std::string(200000, 'b')));
  auto buffer = from_value<std::shared_ptr<arrow::Buffer>>(value);
  EXPECT_GE(buffer->data(), value.memory->data());
  EXPECT_LE(buffer->data() + buffer->size(), value.memory->data() + value.memory->size());
}

TEST(ValueTest, WhatWasReadKeepsThePagesAlive) {
  auto expected = make_table(50000);
  auto read = from_value<std::shared_ptr<arrow::Table>>(to_value(expected));  // the value is gone
  EXPECT_TRUE(read->Equals(*expected));
  auto column = read->column(0)->chunk(0);
  read.reset();
  EXPECT_TRUE(column->Equals(*expected->column(0)->chunk(0)));
}

TEST(ValueTest, SmallTablesAreInline) {
  Value value = to_value(numbers_table(10));
  EXPECT_FALSE(value.memory);
  EXPECT_LT(value.inline_body.size(), 2000u);
}

TEST(ValueTest, SeveralLargePartsShareARegion) {
  using Tables = std::map<std::string, std::shared_ptr<arrow::Table>>;
  Tables tables{{"a", numbers_table(50000)}, {"b", numbers_table(5)}, {"c", numbers_table(60000)}};
  auto value = to_value(std::make_tuple(tables, std::string(300000, 's'),
                                        arrow::Buffer::FromString(std::string(200000, 'b'))));
  auto [read, text, buffer] =
      from_value<std::tuple<Tables, std::string, std::shared_ptr<arrow::Buffer>>>(value);
  for (const auto& [name, table] : tables) EXPECT_TRUE(read.at(name)->Equals(*table));
  EXPECT_TRUE(text == std::string(300000, 's'));
  EXPECT_EQ(buffer->ToString(), std::string(200000, 'b'));
  EXPECT_TRUE(lies_in(*read["c"]->column(0)->chunk(0)->data(), *value.memory));
}

// ---- Values in messages

Value send_value(const Value& value) {
  std::string bytes;
  OutArchive out(bytes);
  out(value);
  InArchive in(bytes);
  for (const auto& fd : out.fds) in.fds.emplace_back(::dup(fd.fd));
  Value received;
  in(received);
  EXPECT_EQ(in.remaining(), 0u);
  return received;
}

TEST(ValueTest, ValuesTravelWithTheirMemory) {
  Value value = to_value(everything());
  value.refs = {1, 2, 3};
  Value received = send_value(value);
  EXPECT_EQ(received.refs, value.refs);
  EXPECT_EQ(from_value<Everything>(received), everything());

  auto table = make_table(50000);
  received = send_value(to_value(table));
  EXPECT_TRUE(from_value<std::shared_ptr<arrow::Table>>(received)->Equals(*table));
  EXPECT_TRUE(from_value<std::string>(send_value(to_value(std::string(200000, 'x')))) ==
              std::string(200000, 'x'));
}

TEST(ValueTest, AMessageThatLiesAboutItsMemoryIsRefused) {
  Value good = to_value(std::string(200000, 'x'));
  struct Case {
    const char* name;
    uint64_t offset, size, memory_size;
    int fds;
  };
  for (const auto& [name, offset, size, memory_size, fds] :
       {Case{"no descriptor", 0, 100, 200008, 0}, Case{"no memory", 0, 100, 0, 0},
        Case{"too far", 200008, 1, 200008, 1}, Case{"too long", 1, 200008, 200008, 1},
        Case{"overflow", UINT64_MAX, 2, 200008, 1}, Case{"overflow", 2, UINT64_MAX, 200008, 1},
        Case{"larger than it is", 0, 100, 200009, 1}, Case{"huge", 0, 100, UINT64_MAX, 1}}) {
    SCOPED_TRACE(name);
    std::string bytes;
    OutArchive out(bytes);
    out(std::string(), std::vector<ObjectId>(), offset, size, memory_size);
    InArchive in(bytes);
    for (int i = 0; i < fds; ++i) in.fds.emplace_back(::dup(good.memory->fd()));
    Value value;
    try {
      in(value);
      ADD_FAILURE() << "threw nothing";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << error.what();
    }
  }
}

TEST(ValueTest, ARangeOutsideOfTheMemoryIsRefused) {
  Value good = to_value(arrow::Buffer::FromString(std::string(200000, 'b')));
  struct Case {
    uint64_t offset, size;
  };
  for (auto [offset, size] : {Case{0, 200001}, Case{200000, 1}, Case{1, UINT64_MAX},
                              Case{UINT64_MAX, 1}, Case{UINT64_MAX, UINT64_MAX}}) {
    Value value = good;
    value.inline_body.clear();
    OutArchive(value.inline_body)(uint8_t{2}, offset, size);
    EXPECT_THROW(from_value<std::shared_ptr<arrow::Buffer>>(value), Error);
    value.memory.reset();
    EXPECT_THROW(from_value<std::shared_ptr<arrow::Buffer>>(value), Error);
  }
}

// ---- Damage: what is read may be wrong or refused, but nothing crashes, and nothing is allocated
// on a damaged length's word.

// What reading it throws: "" if nothing.
template <class T>
std::string read_damaged(const Value& value) {
  try {
    from_value<T>(value);
    return "";
  } catch (const Error& error) {
    return "Error";
  } catch (const std::exception& error) {
    return demangle(typeid(error).name());
  }
}

TEST(ValueTest, ATruncatedValueIsRefused) {
  Value whole = to_value(everything());
  for (size_t size = 0; size < whole.inline_body.size(); ++size) {
    Value cut = whole;
    cut.inline_body.resize(size);
    EXPECT_EQ(read_damaged<Everything>(cut), "Error") << size;
  }
}

TEST(ValueTest, ATruncatedTableIsRefused) {
  using Table = std::shared_ptr<arrow::Table>;
  Value whole = to_value(numbers_table(20));
  for (size_t size = 0; size < whole.inline_body.size(); ++size) {
    Value cut = whole;
    cut.inline_body.resize(size);
    EXPECT_EQ(read_damaged<Table>(cut), "Error") << size;
  }
}

TEST(ValueTest, ADamagedValueDoesNotCrash) {
  std::mt19937 random(7);
  Value whole = to_value(everything());
  std::set<std::string> thrown;
  for (int round = 0; round < 20000; ++round) {
    Value bad = whole;
    for (uint32_t flips = 1 + random() % 3; flips > 0; --flips) {
      bad.inline_body[random() % bad.inline_body.size()] ^= static_cast<char>(1 << random() % 8);
    }
    thrown.insert(read_damaged<Everything>(bad));
  }
  EXPECT_THAT(thrown, testing::IsSubsetOf({"", "Error", "cereal::Exception"}));
}

TEST(ValueTest, ADamagedTableDoesNotCrash) {
  using Table = std::shared_ptr<arrow::Table>;
  std::mt19937 random(8);
  std::set<std::string> thrown;
  for (const auto& table : {numbers_table(20), make_table(20)}) {
    Value whole = to_value(table);
    bool shared = whole.memory != nullptr;
    for (int round = 0; round < 3000; ++round) {
      Value bad = whole;
      std::string bytes = shared ? std::string(reinterpret_cast<const char*>(whole.memory->data()),
                                               whole.memory->size())
                                 : whole.inline_body;
      for (uint32_t flips = 1 + random() % 4; flips > 0; --flips) {
        bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
      }
      if (shared) {
        SharedMemoryWriter writer;
        writer.append(bytes.data(), bytes.size());
        bad.memory = std::move(writer).finish();
      } else {
        bad.inline_body = bytes;
      }
      thrown.insert(read_damaged<Table>(bad));
    }
  }
  EXPECT_THAT(thrown, testing::IsSubsetOf({"", "Error"}));
}

TEST(ValueTest, ADamagedLengthAllocatesNothing) {
  for (uint64_t length : {uint64_t{1} << 33, uint64_t{1} << 62, UINT64_MAX}) {
    Value value;
    OutArchive(value.inline_body)(length);
    EXPECT_EQ(read_damaged<std::string>(value), "Error");
    EXPECT_EQ(read_damaged<std::vector<double>>(value), "Error");
    EXPECT_EQ(read_damaged<std::vector<std::string>>(value), "Error");
    EXPECT_EQ((read_damaged<std::map<int, int>>(value)), "Error");
    value.inline_body.clear();
    OutArchive(value.inline_body)(uint8_t{1}, length);
    EXPECT_EQ(read_damaged<std::shared_ptr<arrow::Buffer>>(value), "Error");
  }
}

}  // namespace
}  // namespace manta
