// Sources of whole files: read_binary_files, read_numpy.

#include <arrow/api.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/data/npy_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"
#include "manta/data/text_folder_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const Json& npy_files() {
  static const Json cases = Json::parse(
#include "manta/data/expected/npy.inc"
  );
  return cases;
}

TEST(BinaryFilesTest, ARowIsAFile) {
  TextFolder folder;
  std::string all("\0\xff\n", 3);
  folder.write("x/b.bin", all);
  folder.write("x/a", "");
  folder.write("x/c/d.txt", "text");
  folder.write("x/_hidden", "no");
  Dataset dataset = read_binary_files(folder / "x", {.include_paths = true});
  EXPECT_EQ(dataset.count(), 3);
  EXPECT_THAT(dataset.columns(), ElementsAre("bytes", "path"));
  std::vector<std::string> bytes;
  for (const Json& each : column_as_json(dataset, "bytes")) bytes.push_back(each);
  EXPECT_THAT(bytes, ElementsAre("", all, "text"));
  EXPECT_EQ(column_as_json(dataset, "path"),
            Json({folder / "x/a", folder / "x/b.bin", folder / "x/c/d.txt"}));
  EXPECT_EQ(Dataset::from_json(dataset.to_json()).count(), 3);
  EXPECT_THAT(read_binary_files(folder / "x/*.bin").columns(), ElementsAre("bytes"));
}

TEST(BinaryFilesTest, AFragmentIsSomeFilesAndNoMore) {
  TextFolder folder;
  for (int i = 0; i < 20; ++i) folder.write(str("x/", i + 10), std::string(1 << 20, 'x'));
  Dataset dataset = read_binary_files(folder / "x");
  EXPECT_GE(dataset.plan()->source->fragments().size(), 3u);
  EXPECT_EQ(dataset.count(), 20);
  EXPECT_EQ(dataset.to_table()->num_rows(), 20);
}

TEST(BinaryFilesTest, FilesThatHaveChangedAreErrors) {
  TextFolder folder;
  std::string path = folder.write("a", "one");
  Dataset dataset = read_binary_files(path);
  Json plan = dataset.to_json();
  folder.write("a", "four");
  for (const auto& one : {dataset, Dataset::from_json(plan)}) {
    EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { one.to_table(); }),
                AllOf(HasSubstr("has changed"), HasSubstr(path)));
  }
  std::filesystem::remove(path);
  message_of(ErrorKind::kNotFound, [&] { dataset.to_table(); });
  std::filesystem::create_directory(folder / "empty");
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { read_binary_files(folder / "empty"); }),
              HasSubstr("holds no file"));
}

TEST(NumpyTest, FilesAreReadAsNumpyDoes) {
  TextFolder folder;
  int number = 0;
  for (const Json& one : npy_files()) {
    SCOPED_TRACE(one["name"]);
    std::string path = folder.write(str(number++, ".npy"), from_hex(one["file"]));
    if (one.contains("refused")) {
      EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { read_numpy(path); }),
                  HasSubstr(path));
      continue;
    }
    Dataset dataset = read_numpy(path);
    EXPECT_EQ(dataset.count(), static_cast<int64_t>(one["rows"].size()));
    EXPECT_EQ(column_as_json(dataset, "data"), one["rows"]);
    auto type = dataset.schema()->field(0)->type();
    while (type->num_fields() > 0) type = type->field(0)->type();
    std::string name = type->id() == arrow::Type::HALF_FLOAT ? "float16"
                       : type->id() == arrow::Type::FLOAT    ? "float32"
                       : type->id() == arrow::Type::DOUBLE   ? "float64"
                                                             : type->ToString();
    EXPECT_EQ(name, one["type"]);
    EXPECT_EQ(column_as_json(Dataset::from_json(dataset.to_json()), "data"), one["rows"]);
  }
}

TEST(NumpyTest, LargeFilesAreReadInPartsAndFilesFollowEachOther) {
  TextFolder folder;
  auto file = [](int64_t first, int64_t rows) {
    std::string text = npy_header(*arrow::int64(), {rows, 4});
    for (int64_t i = first * 4; i < (first + rows) * 4; ++i) {
      text.append(reinterpret_cast<const char*>(&i), sizeof(i));
    }
    return text;
  };
  folder.write("a.npy", file(0, 300'000));
  folder.write("b.npy", file(300'000, 10));
  Dataset dataset = read_numpy(folder.path());
  EXPECT_EQ(dataset.plan()->source->fragments().size(), 3u);
  EXPECT_EQ(dataset.count(), 300'010);
  int64_t next = 0;
  for (const auto& batch : dataset.iter_batches({.batch_size = 1000})) {
    const auto& lists = static_cast<const arrow::FixedSizeListArray&>(*batch->column(0));
    const auto& values = static_cast<const arrow::Int64Array&>(*lists.values());
    for (int64_t i = 0; i < lists.length() * 4; ++i) {
      ASSERT_EQ(values.Value(lists.value_offset(0) + i), next++);
    }
  }
  EXPECT_EQ(next, 300'010 * 4);
  folder.write("c.npy", npy_header(*arrow::int64(), {0, 5}));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { read_numpy(folder.path()).count(); }),
              AllOf(HasSubstr("c.npy"), HasSubstr("a.npy"), HasSubstr("[5]")));
}

TEST(NumpyTest, HeadersOfAnyKindAreErrorsOrRead) {
  auto header = [](const std::string& text) {
    std::string bytes = "\x93NUMPY\x01";
    bytes += '\0';
    bytes += static_cast<char>(text.size() & 0xff);
    bytes += static_cast<char>(text.size() >> 8);
    return bytes + text;
  };
  struct Case {
    std::string bytes;
    const char* says;
  };
  const Case cases[] = {
      {"", "does not begin"},
      {"\x93NUMPY", "cut off"},
      {header(""), "cut off"},
      {header("{}          "), "lacks a field"},
      {header("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,)}"), "cannot be read"},
      {header("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), 'x': 1}"), "cannot be read"},
      {header("{'descr': '<i8', 'descr': '<i8', 'shape': (1,)}"), "cannot be read"},
      {header("{'descr': '<i8', 'fortran_order': 0, 'shape': (1,)}"), "cannot be read"},
      {header("{'descr': '<i8', 'fortran_order': False, 'shape': (1,)"), "cannot be read"},
      {header("{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}"), "16 bytes follow"},
      {header("{'descr': '<i8', 'fortran_order': False, 'shape': (281474976710656, "
              "281474976710656)}"),
       "more elements"},
      {header("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 2000000000, 2000000000)}"),
       "2 GiB"},
      {header("{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999999999999,)}"),
       "cannot be read"},
      {header("__import__('os').system('true')"), "cannot be read"},
  };
  for (const Case& one : cases) {
    EXPECT_THAT(
        message_of([&] { parse_npy_header(one.bytes, static_cast<int64_t>(one.bytes.size())); }),
        HasSubstr(one.says))
        << one.bytes;
  }
  std::string good = header("{'descr':'<i8','fortran_order':False,'shape':()}");
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { parse_npy_header(good, 68); }),
              HasSubstr("single number"));
}

TEST(NumpyTest, ADamagedPlanIsAnError) {
  TextFolder folder;
  Json plan = read_numpy(folder.write("a.npy", npy_header(*arrow::int8(), {0}))).to_json();
  for (const Json& shape : {Json::array(), Json{-1}, Json{7}, Json{0, "x"}, Json(3)}) {
    Json damaged = plan;
    damaged["source"]["headers"][0]["shape"] = shape;
    message_of([&] { Dataset::from_json(damaged); });
  }
}

}  // namespace
}  // namespace manta::data
