#include <arrow/api.h>
#include <arrow/io/interfaces.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "manta/base/error_internal.h"
#include "manta/data/csv_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/source_internal.h"
#include "manta/data/sources.h"
#include "manta/io/checksum_internal.h"

namespace manta::data {
namespace {

// A file that has changed has mostly changed at one of its ends, too.
constexpr int64_t kChecksumBytes = 64 << 10;

/// CSV files whose rows follow each other; a fragment is some of a file's records.
class CsvSource final : public Source {
 public:
  CsvSource(const std::vector<std::string>& paths, const ReadCsvOptions& options);
  explicit CsvSource(const JsonFields& fields);

  std::string_view name() const override { return "csv"; }
  std::string to_string() override;
  Json to_json() override;
  std::string why_not_stored() const override;
  std::shared_ptr<arrow::Schema> schema() override { return schema_; }
  const std::vector<Fragment>& fragments() override;
  bool rules_out(size_t, const std::vector<Bound>&) override { return false; }
  void read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
            const TakeBatch& take) override;
  std::string describe(size_t fragment) const override;

 private:
  struct File {
    std::string path;
    std::mutex mutex;                // of what follows
    std::optional<FileStamp> stamp;  // once it was opened
    int64_t size = 0;
    std::string checksum;
    CsvParts parts;  // none before they are known
  };
  struct Part {
    size_t file = 0;
    int64_t begin = 0;
    int64_t end = 0;
    std::string checksum;
  };

  void add_file(std::string path);
  CsvFile open(File& file);
  void cut(File& file);
  void add_parts(size_t file);
  std::vector<std::string> all_names() const { return all_->field_names(); }
  void set_schema(const std::vector<std::string>& columns);

  CsvFormat format_;
  std::vector<std::string> column_names_;  // of files without a header
  std::vector<std::string> given_;         // columns whose type the user gave
  int64_t fragment_bytes_ = 0;
  std::shared_ptr<arrow::Schema> all_;     // of all columns of the files
  std::shared_ptr<arrow::Schema> schema_;  // of those that were asked for
  int64_t sample_rows_ = 0;
  int64_t sample_bytes_ = 0;
  std::vector<std::unique_ptr<File>> files_;
  std::mutex mutex_;  // of everything below
  std::vector<Part> parts_;
  std::vector<Fragment> fragments_;
  bool all_known_ = false;  // the two before it, which then never change
};

std::string checksum_of_ends(const CsvFile& file) {
  Checksum checksum;
  for (int64_t from : {int64_t{0}, std::max<int64_t>(file.size - kChecksumBytes, 0)}) {
    auto bytes = read_bytes(file, from, std::min(kChecksumBytes, file.size - from));
    checksum.add(bytes->data(), static_cast<size_t>(bytes->size()));
  }
  return checksum.hex();
}

[[noreturn]] void throw_csv_changed(const std::string& path, const std::string& how) {
  throw Error(ErrorKind::kCorrupt,
              str("read_csv: '", path, "' has changed since the plan was made: ", how,
                  "; build the data set again"));
}

void check_options(const ReadCsvOptions& options) {
  auto fail = [](const std::string& what) {
    throw Error(ErrorKind::kInvalidArgument, "read_csv: " + what);
  };
  for (char c : {options.delimiter, options.quote}) {
    if (c == '\n' || c == '\r') fail("a line end cannot be the .delimiter or .quote");
  }
  if (options.delimiter == '\0') fail("there must be a .delimiter");
  if (options.delimiter == options.quote) fail("the .delimiter cannot be the .quote, too");
  if (options.fragment_bytes < 1 || options.fragment_bytes > (256 << 20)) {
    fail(
        str(".fragment_bytes must be between 1 and ", 256 << 20, ", not ", options.fragment_bytes));
  }
}

void require_same_header(const std::vector<std::string>& names, const std::string& path,
                         const std::vector<std::string>& first_names,
                         const std::string& first_path) {
  if (names == first_names) return;
  throw Error(
      ErrorKind::kInvalidArgument,
      str("read_csv: '", path, "' has the columns ", join(names), ", not ", join(first_names),
          " as '", first_path, "'; give all files the same header, or leave it out"));
}

void check_names(const std::vector<std::string>& names, const std::string& path) {
  try {
    require_distinct(names, str("the header of '", path, "'"));
  } catch (const Error& error) {
    throw Error(ErrorKind::kInvalidArgument,
                str("read_csv: ", error.what(), "; write it with distinct names"));
  }
}

CsvSource::CsvSource(const std::vector<std::string>& paths, const ReadCsvOptions& options)
    : format_{options.delimiter, options.quote, options.null_values, options.strings_can_be_null,
              options.quoted_can_be_null},
      column_names_(options.column_names),
      fragment_bytes_(options.fragment_bytes) {
  check_options(options);
  if (paths.empty()) throw Error(ErrorKind::kInvalidArgument, "read_csv: no path was given");
  require_distinct(options.columns, "the columns of read_csv");
  for (auto& path : find_files(kCsv, paths)) add_file(std::move(path));
  std::vector<std::string> names;
  CsvSample sample;
  // A file without rows says nothing about types.
  for (size_t i = 0; i < files_.size() && sample.rows == 0; ++i) {
    CsvFile file = open(*files_[i]);
    auto start = find_start(file, format_, column_names_);
    if (i == 0) {
      check_names(start.names, file.path);
      names = start.names;
    }
    require_same_header(start.names, file.path, names, files_[0]->path);
    sample = take_sample(file, format_, start, options.column_types);
  }
  for (const auto& [name, type] : options.column_types) given_.push_back(name);
  all_ = sample.schema;
  sample_rows_ = std::max<int64_t>(sample.rows, 1);
  sample_bytes_ = std::max<int64_t>(sample.bytes, 1);
  for (const auto& name : options.columns) {
    if (all_->GetFieldByName(name)) continue;
    throw Error(ErrorKind::kNotFound,
                str("read_csv: in '", files_[0]->path, "' ", no_such_column(name, names)));
  }
  set_schema(options.columns.empty() ? names : options.columns);
}

void CsvSource::set_schema(const std::vector<std::string>& columns) {
  arrow::FieldVector fields;
  for (const auto& name : columns) fields.push_back(all_->GetFieldByName(name));
  schema_ = arrow::schema(fields);
}

void CsvSource::add_file(std::string path) {
  files_.push_back(std::make_unique<File>());
  files_.back()->path = std::move(path);
}

// The file as it was when it was opened first, or when the plan was stored.
CsvFile CsvSource::open(File& file) {
  DataFile opened = open_data_file(kCsv, file.path);
  CsvFile result{file.path, opened.file, opened.stamp.size};
  auto fail = [&](const std::string& how) { throw_csv_changed(file.path, how); };
  std::lock_guard lock(file.mutex);
  if (file.stamp == opened.stamp) return result;
  if (file.stamp) fail("it was replaced or written to while the data set was in use");
  std::string checksum = checksum_of_ends(result);
  if (file.checksum.empty()) {
    file.checksum = checksum;
    file.size = result.size;
  }
  if (result.size != file.size) fail(str("it had ", file.size, " bytes and has ", result.size));
  if (checksum != file.checksum) fail("its first or last bytes are others");
  file.stamp = opened.stamp;
  return result;
}

void CsvSource::cut(File& file) {
  CsvFile opened = open(file);
  auto start = find_start(opened, format_, column_names_);
  require_same_header(start.names, file.path, all_names(), files_[0]->path);
  auto parts = cut_records(opened, format_, start.offset, fragment_bytes_);
  std::lock_guard lock(file.mutex);
  file.parts = std::move(parts);
}

void CsvSource::add_parts(size_t file) {
  const auto& [offsets, checksums] = files_[file]->parts;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    parts_.push_back({file, offsets[i], offsets[i + 1], checksums[i]});
    auto bytes = static_cast<__int128>(offsets[i + 1] - offsets[i]);
    auto rows = static_cast<int64_t>(bytes * sample_rows_ / sample_bytes_);
    fragments_.push_back({std::nullopt, std::clamp<int64_t>(rows, 1, kMaxRows)});
  }
}

const std::vector<Fragment>& CsvSource::fragments() {
  std::lock_guard lock(mutex_);
  if (all_known_) return fragments_;
  for (auto& file : files_) {
    if (file->parts.offsets.empty()) cut(*file);
  }
  for (size_t i = 0; i < files_.size(); ++i) add_parts(i);
  all_known_ = true;
  return fragments_;
}

void CsvSource::read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
                     const TakeBatch& take) {
  const Part& part = parts_[fragment];
  CsvFile file = open(*files_[part.file]);
  auto bytes = read_bytes(file, part.begin, part.end - part.begin);
  // Others may write to it at any time, also after it was opened.
  if (checksum_of(std::string_view(*bytes)) != part.checksum) {
    throw_csv_changed(file.path, str("its bytes ", part.begin, " to ", part.end, " are others"));
  }
  if (part.end == file.size) check_last_record(std::string_view(*bytes), file, format_, part.begin);
  CsvRecords(format_, all_, given_)
      .parse(std::string_view(*bytes), file, part.begin, columns, piece_rows, take);
}

std::string CsvSource::describe(size_t fragment) const {
  const Part& part = parts_[fragment];
  return str("bytes ", part.begin, " to ", part.end, " of '", files_[part.file]->path, "'");
}

std::string CsvSource::to_string() {
  return str("read_csv: ", files_.size(), " files in ", fragments().size(), " parts; first file '",
             files_[0]->path, "'");
}

std::string CsvSource::why_not_stored() const {
  for (const auto& file : files_) {
    if (!is_utf8(file->path)) {
      return str("the path ", short_text(file->path),
                 " is not UTF-8. Rename the file or its folder");
    }
  }
  return {};
}

Json CsvSource::to_json() {
  fragments();
  Json files = Json::array();
  for (const auto& file : files_) {
    std::lock_guard lock(file->mutex);
    files.push_back({{"path", file->path},
                     {"size", file->size},
                     {"checksum", file->checksum},
                     {"offsets", file->parts.offsets},
                     {"checksums", file->parts.checksums}});
  }
  Json types = Json::array();
  for (const auto& field : all_->fields()) types.push_back(csv_type_name(*field->type()));
  return {{"files", files},
          {"names", all_names()},
          {"types", types},
          {"header", column_names_.empty()},
          {"given", given_},
          {"columns", schema_->field_names()},
          {"delimiter", std::string(1, format_.delimiter)},
          {"quote", format_.quote ? std::string(1, format_.quote) : std::string()},
          {"null_values", format_.null_values},
          {"strings_can_be_null", format_.strings_can_be_null},
          {"quoted_can_be_null", format_.quoted_can_be_null},
          {"fragment_bytes", fragment_bytes_},
          {"sample_rows", sample_rows_},
          {"sample_bytes", sample_bytes_}};
}

char character(const JsonFields& fields, const std::string& key, bool required) {
  std::string text = fields.text(key);
  bool fits = text.size() == 1 ? text != "\n" && text != "\r" : text.empty() && !required;
  if (!fits) fields.fail(key, "one character");
  return text.empty() ? '\0' : text[0];
}

CsvSource::CsvSource(const JsonFields& fields)
    : format_{character(fields, "delimiter", true), character(fields, "quote", false),
              fields.texts("null_values"), fields.boolean("strings_can_be_null"),
              fields.boolean("quoted_can_be_null")},
      given_(fields.texts("given", kLongestName)),
      fragment_bytes_(fields.integer("fragment_bytes", 1, 256 << 20)),
      sample_rows_(fields.integer("sample_rows", 1, kMaxRows)),
      sample_bytes_(fields.integer("sample_bytes", 1, kMaxRows)) {
  auto names = fields.texts("names", kLongestName);
  auto types = fields.texts("types");
  if (names.empty() || names.size() != types.size()) fields.fail("types", "one for each name");
  require_distinct(names, "the columns of a plan's source");
  arrow::FieldVector all;
  for (size_t i = 0; i < names.size(); ++i)
    all.push_back(arrow::field(names[i], csv_type(types[i])));
  all_ = arrow::schema(all);
  if (!fields.boolean("header")) column_names_ = names;
  auto columns = fields.texts("columns", kLongestName);
  require_distinct(columns, "the columns of a plan's source");
  for (const auto& name : columns) {
    if (!contains(names, name)) fields.fail("columns", "columns of the files");
  }
  set_schema(columns);
  size_t count = fields.array("files").size();
  if (count == 0) fields.fail("files", "at least one file");
  for (size_t index = 0; index < count; ++index) {
    JsonFields file = fields.element("files", index);
    add_file(file.text("path"));
    File& added = *files_.back();
    if (added.path.empty() || added.path[0] != '/') file.fail("path", "an absolute path");
    added.size = file.integer("size", 0, kMaxRows);
    added.checksum = file.text("checksum");
    auto& offsets = added.parts.offsets;
    for (const Json& offset : file.array("offsets")) {
      bool fits = offset.is_number_integer() &&
                  (offset.is_number_unsigned() || offset.get<int64_t>() >= 0) &&
                  offset.get<uint64_t>() <= static_cast<uint64_t>(added.size);
      int64_t value = fits ? offset.get<int64_t>() : 0;
      fits = fits && (offsets.empty() || offsets.back() < value);
      if (!fits) file.fail("offsets", "rising offsets within the file");
      offsets.push_back(value);
    }
    if (added.checksum.empty() || offsets.empty()) file.fail("offsets", "where parts begin");
    added.parts.checksums = file.texts("checksums");
    if (added.parts.checksums.size() + 1 != offsets.size()) {
      file.fail("checksums", "one for each part");
    }
    add_parts(index);
  }
  all_known_ = true;
}

}  // namespace

std::shared_ptr<Source> read_csv_source(const JsonFields& fields) {
  return std::make_shared<CsvSource>(fields);
}

Dataset read_csv(const std::string& path, const ReadCsvOptions& options) {
  return read_csv(std::vector<std::string>{path}, options);
}

Dataset read_csv(const std::vector<std::string>& paths, const ReadCsvOptions& options) {
  return dataset_of(std::make_shared<CsvSource>(paths, options));
}

}  // namespace manta::data
