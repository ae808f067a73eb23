#include <arrow/api.h>

#include <charconv>

#include "manta/base/error_internal.h"
#include "manta/data/bounds_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/partitions_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr std::string_view kNullPartition = "__HIVE_DEFAULT_PARTITION__";
constexpr const char* kPartitionColumn = "a column of folders";
using PartitionValue = std::optional<std::string>;

std::optional<int> hex_digit(char c) {
  int value = 0;
  auto parsed = std::from_chars(&c, &c + 1, value, 16);
  return parsed.ec == std::errc() ? std::optional(value) : std::nullopt;
}

// "a%20b" is "a b"; anything else stays as it is.
std::string decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    auto high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
    auto low = high ? hex_digit(text[i + 2]) : std::nullopt;
    if (low) {
      result += static_cast<char>(*high * 16 + *low);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::optional<int64_t> partition_number(const std::string& text) {
  int64_t number = 0;
  auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  // "007" and "-0" would not come back unchanged.
  return str(number) == text ? std::optional(number) : std::nullopt;
}

struct Partitions {
  std::vector<std::string> keys;
  std::vector<std::vector<PartitionValue>> values;  ///< By file, then by key.
};

// The keys and values in "year=2020/month=01/a.parquet".
std::vector<std::pair<std::string, PartitionValue>> partitions_in(const std::string& below) {
  std::vector<std::pair<std::string, PartitionValue>> found;
  for (size_t at = 0;;) {
    size_t end = below.find('/', at);
    if (end == std::string::npos) return found;
    std::string_view folder = std::string_view(below).substr(at, end - at);
    size_t equals = folder.find('=');
    if (equals != std::string_view::npos && equals > 0) {
      auto value = folder.substr(equals + 1);
      found.emplace_back(decoded(folder.substr(0, equals)),
                         value == kNullPartition ? PartitionValue() : decoded(value));
    }
    at = end + 1;
  }
}

Partitions partitions_of(const FileKind& kind, const std::vector<FoundFile>& files) {
  Partitions all;
  for (size_t i = 0; i < files.size(); ++i) {
    std::vector<std::string> keys;
    auto& values = all.values.emplace_back();
    for (auto& [key, value] : partitions_in(files[i].below)) {
      keys.push_back(key);
      values.push_back(std::move(value));
    }
    if (i == 0) all.keys = keys;
    if (keys == all.keys) continue;
    throw Error(ErrorKind::kInvalidArgument,
                str(kind.reader, ": the folders of '", files[i].path, "' name the columns {",
                    join(keys), "}, and those of '", files[0].path, "' {", join(all.keys),
                    "}; move the files, or set .hive_partitions = false"));
  }
  require_distinct(all.keys, str(kind.reader, ": the folders of '", files[0].path, "'"));
  return all;
}

[[noreturn]] void throw_both(const std::string& file, const std::string& name) {
  throw Error(ErrorKind::kInvalidArgument,
              str("'", file, "' has a column '", name, "', and is in a folder '", name,
                  "=...'; set .hive_partitions = false to read that of the file, or leave it out "
                  "with .columns"));
}

/// A source of files, and columns whose values are in the names of their folders.
class PartitionedSource final : public FileSource {
 public:
  PartitionedSource(std::shared_ptr<FileSource> files, Partitions partitions)
      : files_(std::move(files)), partitions_(std::move(partitions)) {
    for (size_t key = 0; key < partitions_.keys.size(); ++key) {
      bool numbers = true, any = false;
      for (const auto& values : partitions_.values) {
        any = any || values[key];
        numbers = numbers && (!values[key] || partition_number(*values[key]));
      }
      fields_.push_back(
          arrow::field(partitions_.keys[key], numbers && any ? arrow::int64() : arrow::utf8()));
    }
  }

  std::string_view name() const override { return "partitioned"; }
  std::string to_string() override {
    return str(files_->to_string(), "; columns of folders: ", join(partitions_.keys));
  }
  Json to_json() override {
    Json values = Json::array();
    for (const auto& of_file : partitions_.values) {
      Json& row = values.emplace_back(Json::array());
      for (const auto& value : of_file) row.push_back(value ? Json(*value) : Json());
    }
    return {{"source", source_to_json(*files_)}, {"keys", partitions_.keys}, {"values", values}};
  }
  std::string why_not_stored() const override { return files_->why_not_stored(); }
  std::shared_ptr<arrow::Schema> schema() override {
    auto fields = files_->schema()->fields();
    for (const auto& field : fields_) {
      for (const auto& of_file : fields) {
        if (of_file->name() == field->name()) throw_both(files_->files()[0], field->name());
      }
    }
    fields.insert(fields.end(), fields_.begin(), fields_.end());
    return arrow::schema(fields);
  }
  const std::vector<Fragment>& fragments() override { return files_->fragments(); }
  std::string describe(size_t fragment) const override { return files_->describe(fragment); }
  std::vector<std::string> files() const override { return files_->files(); }
  size_t file_of(size_t fragment) const override { return files_->file_of(fragment); }

  bool rules_out(size_t fragment, const std::vector<Bound>& bounds) override {
    std::vector<Bound> of_files;
    for (const auto& bound : bounds) {
      int key = key_of(bound.column);
      if (key < 0) {
        of_files.push_back(bound);
      } else if (!fulfils(fragment, static_cast<size_t>(key), bound.comparison)) {
        return true;
      }
    }
    return files_->rules_out(fragment, of_files);
  }

  void read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
            const TakeBatch& take) override {
    read_rows(&Source::read, fragment, columns, piece_rows, take);
  }
  void read_coded(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
                  const TakeBatch& take) override {
    read_rows(&Source::read_coded, fragment, columns, piece_rows, take);
  }

 private:
  void read_rows(decltype(&Source::read) read, size_t fragment,
                 const std::vector<std::string>& columns, int64_t piece_rows,
                 const TakeBatch& take) {
    std::vector<std::string> of_files;
    std::vector<size_t> keys;
    for (const auto& name : columns) {
      int key = key_of(name);
      key < 0 ? of_files.push_back(name) : keys.push_back(static_cast<size_t>(key));
    }
    ((*files_).*read)(fragment, of_files, piece_rows, [&](auto batch) {
      auto fields = batch->schema()->fields();
      auto arrays = batch->columns();
      for (size_t key : keys) {
        fields.push_back(fields_[key]);
        arrays.push_back(values(fragment, key, batch->num_rows()));
      }
      take(arrow::RecordBatch::Make(arrow::schema(fields), batch->num_rows(), arrays));
    });
  }

  int key_of(const std::string& name) const {
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i]->name() == name) return static_cast<int>(i);
    }
    return -1;
  }

  std::shared_ptr<arrow::Array> values(size_t fragment, size_t key, int64_t rows) const {
    const auto& value = partitions_.values[files_->file_of(fragment)][key];
    const auto& type = fields_[key]->type();
    if (!value) return check(arrow::MakeArrayOfNull(type, rows), kPartitionColumn);
    auto scalar = type->id() == arrow::Type::INT64
                      ? arrow::MakeScalar(*partition_number(*value))
                      : std::static_pointer_cast<arrow::Scalar>(arrow::MakeScalar(*value));
    return check(arrow::MakeArrayFromScalar(*scalar, rows), kPartitionColumn);
  }

  bool fulfils(size_t fragment, size_t key, const Expression& comparison) const {
    Piece piece;
    piece.rows = 1;
    piece.set(fields_[key]->name(), values(fragment, key, 1));
    auto result = evaluate(comparison, piece);
    const auto& flags = static_cast<const arrow::BooleanArray&>(*result);
    return flags.IsValid(0) && flags.Value(0);
  }

  const std::shared_ptr<FileSource> files_;
  const Partitions partitions_;
  arrow::FieldVector fields_;
};

}  // namespace

std::shared_ptr<Source> read_partitioned_source(const JsonFields& fields) {
  JsonFields inner = fields.object("source");
  if (inner.has("name") && inner.text("name") == "partitioned") {
    fields.fail("source", "a source of files");
  }
  auto files = std::dynamic_pointer_cast<FileSource>(read_source(inner));
  if (!files) fields.fail("source", "a source of files");
  Partitions partitions;
  partitions.keys = fields.texts("keys", kLongestName);
  require_distinct(partitions.keys, "the columns of a plan's source");
  const Json& values = fields.array("values");
  if (values.size() != files->files().size()) fields.fail("values", "a list for each file");
  for (const Json& of_file : values) {
    if (!of_file.is_array() || of_file.size() != partitions.keys.size()) {
      fields.fail("values", "lists of a value for each key");
    }
    auto& row = partitions.values.emplace_back();
    for (const Json& value : of_file) {
      if (!value.is_null() && !value.is_string()) fields.fail("values", "lists of texts and nulls");
      row.push_back(value.is_null() ? PartitionValue() : value.get<std::string>());
    }
  }
  return std::make_shared<PartitionedSource>(std::move(files), std::move(partitions));
}

// Whether the first file has that column, too.
static bool have_column(const MakeFileSource& make, const std::string& name) {
  try {
    make({name})->schema();
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    return false;
  }
}

Dataset dataset_of_files(const FileKind& kind, const std::vector<FoundFile>& files, bool hive,
                         const std::vector<std::string>& columns, const MakeFileSource& make) {
  Partitions partitions;
  if (hive) partitions = partitions_of(kind, files);
  if (partitions.keys.empty()) return dataset_of(make(columns));
  std::vector<std::string> of_files;
  for (const auto& name : columns) {
    if (!contains(partitions.keys, name)) of_files.push_back(name);
  }
  require_distinct(columns, str("the columns of ", kind.reader));
  auto plan = std::make_shared<Plan>();
  plan->source = std::make_shared<PartitionedSource>(make(of_files), std::move(partitions));
  try {
    for (const auto& name : columns) {
      // It is unclear which column was meant. Ray and pyarrow refuse values or types that differ.
      if (!contains(of_files, name) && have_column(make, name)) throw_both(files[0].path, name);
    }
    auto all = plan->source->schema()->field_names();
    plan->columns = columns.empty() ? all : columns;
  } catch (const Error& error) {
    throw Error(error.kind(), str(kind.reader, ": ", error.what()));
  }
  return Dataset(std::move(plan));
}

}  // namespace manta::data
