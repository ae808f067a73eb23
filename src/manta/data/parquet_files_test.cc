// Files as other programs write them: encodings, pages, ways to store a type, nulls in every
// position. The rows that are read, and those that filters keep, must equal what Arrow reads from
// the whole file.

#include <arrow/compute/api.h>
#include <gmock/gmock.h>
#include <parquet/arrow/reader.h>
#include <parquet/properties.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/parquet_fixture_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kRows = 200;

// Which rows of a column have no value.
bool is_null(int column, int64_t row) {
  switch (column % 6) {
    case 0:
      return false;
    case 1:
      return true;
    case 2:
      return row == 0 || row == kRows - 1;
    case 3:
      return row % 2 == 0;
    case 4:
      return row < kRows / 2;
    default:
      return row >= kRows / 2 && row < kRows - 1;
  }
}

// Values of all types that Parquet stores in its own ways, each with nulls in each way.
std::shared_ptr<arrow::Table> sample() {
  using arrow::TimeUnit;
  arrow::FieldVector fields = {arrow::field("id", arrow::int64())};
  arrow::ArrayVector columns;
  auto add = [&](const std::shared_ptr<arrow::DataType>& type, auto&& value) {
    for (int nulls = 0; nulls < 6; ++nulls) {
      Json rows = Json::array();
      for (int64_t row = 0; row < kRows; ++row) {
        rows.push_back(is_null(nulls, row) ? Json() : Json(value(row)));
      }
      fields.push_back(arrow::field(str(type->ToString(), " ", nulls), type));
      columns.push_back(array_from_json(type, rows));
    }
  };
  Json ids = Json::array();
  for (int64_t row = 0; row < kRows; ++row) ids.push_back(row);
  columns.push_back(array_from_json(arrow::int64(), ids));
  add(arrow::boolean(), [](int64_t i) { return i % 3 == 0; });
  add(arrow::int32(), [](int64_t i) { return i * 37 % 1000 - 500; });
  add(arrow::int64(), [](int64_t i) { return i * 1000003; });
  add(arrow::float32(), [](int64_t i) { return static_cast<double>(i) / 4; });
  add(arrow::float64(), [](int64_t i) { return static_cast<double>(i) / 3; });
  add(arrow::utf8(), [](int64_t i) { return str("text ", i % 50, std::string(i % 7, 'x')); });
  add(arrow::fixed_size_binary(3), [](int64_t i) { return str(100 + i); });
  add(arrow::decimal128(7, 2), [](int64_t i) { return str(i - 200, ".25"); });
  add(arrow::decimal128(12, 3), [](int64_t i) { return str(i * 1000, ".125"); });
  add(arrow::decimal128(30, 1), [](int64_t i) { return str(i, "000000000000000000000.5"); });
  add(arrow::timestamp(TimeUnit::NANO), [](int64_t i) { return i * 86400000001000; });
  add(arrow::list(arrow::int32()), [](int64_t i) {
    return i % 4 == 0   ? Json::array()
           : i % 4 == 1 ? Json::array({nullptr})
                        : Json::array({i, i + 1});
  });
  add(arrow::list(arrow::list(arrow::utf8())), [](int64_t i) {
    return Json::array({Json::array({str(i)}), i % 5 == 0 ? Json() : Json::array()});
  });
  add(arrow::struct_({arrow::field("a", arrow::int32()), arrow::field("b", arrow::utf8())}),
      [](int64_t i) {
        return Json{{"a", i % 3 == 0 ? Json() : Json(i)}, {"b", str(i)}};
      });
  return arrow::Table::Make(arrow::schema(fields), columns);
}

struct FileCase {
  const char* what;
  std::function<void(parquet::WriterProperties::Builder&, parquet::ArrowWriterProperties::Builder&)>
      write;
};

TEST(ParquetFilesTest, WrittenInOtherWays) {
  using Encoding = parquet::Encoding;
  using Properties = parquet::WriterProperties::Builder;
  using ArrowProperties = parquet::ArrowWriterProperties::Builder;
  auto table = sample();
  // One encoding for the columns of some types.
  auto encode = [&](Properties& p, Encoding::type encoding, std::vector<arrow::Type::type> types) {
    p.disable_dictionary();
    for (const auto& field : table->fields()) {
      if (std::count(types.begin(), types.end(), field->type()->id())) {
        p.encoding(field->name(), encoding);
      }
    }
  };
  using arrow::Type;
  const FileCase cases[] = {
      {"as Arrow does", [](Properties&, ArrowProperties&) {}},
      {"plain", [](Properties& p, ArrowProperties&) { p.disable_dictionary(); }},
      {"dictionaries that grow too large",
       [](Properties& p, ArrowProperties&) {
         p.dictionary_pagesize_limit(64)->data_pagesize(128)->write_batch_size(16);
       }},
      {"pages of version 2",
       [](Properties& p, ArrowProperties&) {
         p.data_page_version(parquet::ParquetDataPageVersion::V2)->data_pagesize(256);
       }},
      {"format 1.0",
       [](Properties& p, ArrowProperties&) {
         p.version(parquet::ParquetVersion::PARQUET_1_0)->data_pagesize(64);
       }},
      {"compressed",
       [](Properties& p, ArrowProperties&) { p.compression(arrow::Compression::SNAPPY); }},
      {"differences",
       [&](Properties& p, ArrowProperties&) {
         encode(p, Encoding::DELTA_BINARY_PACKED, {Type::INT32, Type::INT64, Type::TIMESTAMP});
       }},
      {"common beginnings",
       [&](Properties& p, ArrowProperties&) {
         encode(p, Encoding::DELTA_BYTE_ARRAY, {Type::STRING});
       }},
      {"lengths first",
       [&](Properties& p, ArrowProperties&) {
         encode(p, Encoding::DELTA_LENGTH_BYTE_ARRAY, {Type::STRING});
       }},
      {"split into streams of bytes",
       [&](Properties& p, ArrowProperties&) {
         encode(p, Encoding::BYTE_STREAM_SPLIT, {Type::FLOAT, Type::DOUBLE, Type::INT32});
       }},
      {"decimals as integers",
       [](Properties& p, ArrowProperties&) { p.enable_store_decimal_as_integer(); }},
      {"times of 96 bits",
       [](Properties&, ArrowProperties& a) { a.enable_deprecated_int96_timestamps(); }},
      {"with Arrow's types beside", [](Properties&, ArrowProperties& a) { a.store_schema(); }},
      {"without statistics", [](Properties& p, ArrowProperties&) { p.disable_statistics(); }},
      {"with an index of pages",
       [](Properties& p, ArrowProperties&) { p.enable_write_page_index()->data_pagesize(128); }},
  };
  ParquetFolder folder;
  for (const auto& test : cases) {
    Properties properties;
    ArrowProperties arrow_properties;
    test.write(properties, arrow_properties);
    auto path = folder.file("file.parquet");
    auto out = check(arrow::io::FileOutputStream::Open(path), "a file");
    check(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, 45,
                                     properties.build(), arrow_properties.build()),
          test.what);
    check(out->Close(), test.what);
    auto file = check(arrow::io::ReadableFile::Open(path), "opening");
    auto reader = check(parquet::arrow::OpenFile(file, arrow::default_memory_pool()), test.what);
    auto whole = check(reader->ReadTable(), test.what);

    auto dataset = read_parquet(path);
    auto result = dataset.to_table();
    ASSERT_EQ(result->num_columns(), whole->num_columns());
    for (int i = 0; i < whole->num_columns(); ++i) {
      ASSERT_TRUE(result->column(i)->Equals(*whole->column(i)))
          << test.what << ": " << whole->field(i)->ToString();
    }
    // A filter on each way to store a value, which leaves out row groups where it can.
    for (int nulls : {0, 4}) {
      auto name = [&](const char* type) { return col(str(type, " ", nulls)); };
      for (const auto& condition :
           {name("bool") == true, name("int32") > 100, name("int64") <= 100000300,
            name("float") < 20.1, name("double") >= 40, name("string") == "text 7",
            name("fixed_size_binary[3]") < "150", name("decimal128(7, 2)") > -50.5,
            name("decimal128(12, 3)") <= 200000, name("decimal128(30, 1)") == 0.5,
            name("timestamp[ns]") > "1970-06-01"}) {
        auto ids = ints(*dataset.filter(condition).select_columns({"id"}).take(kRows), "id");
        auto copies = dataset.with_column("kept", condition).select_columns({"id", "kept"});
        auto kept = copies.take(kRows);
        std::vector<int64_t> expected;
        for (int64_t row = 0; row < kRows; ++row) {
          auto flag = check(kept->GetColumnByName("kept")->GetScalar(row), "a flag");
          if (flag->is_valid && static_cast<const arrow::BooleanScalar&>(*flag).value) {
            expected.push_back(row);
          }
        }
        EXPECT_EQ(ids, expected) << test.what << ": " << condition.to_string();
        EXPECT_EQ(expected.empty() && nulls == 0, false) << condition.to_string();
      }
    }
  }
}

}  // namespace
}  // namespace manta::data
