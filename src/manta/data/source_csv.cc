#include <arrow/api.h>
#include <arrow/io/interfaces.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/csv_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/partitions_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/source_internal.h"
#include "manta/data/sources.h"

namespace manta::data {
namespace {

/// CSV files whose rows follow each other; a fragment is some of a file's records.
class CsvSource final : public FileSource {
 public:
  CsvSource(std::vector<FoundFile> files, const ReadCsvOptions& options);
  explicit CsvSource(const JsonFields& fields);

  std::string_view name() const override { return "csv"; }
  std::string to_string() override;
  Json to_json() override;
  std::string why_not_stored() const override { return files_.why_not_stored(); }
  std::shared_ptr<arrow::Schema> schema() override { return schema_; }
  const std::vector<Fragment>& fragments() override;
  bool rules_out(size_t, const std::vector<Bound>&) override { return false; }
  void read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
            const TakeBatch& take) override;
  std::string describe(size_t fragment) const override { return files_.describe(fragment); }
  std::vector<std::string> files() const override { return files_.paths(); }
  size_t file_of(size_t fragment) const override { return files_.part(fragment).file; }

 private:
  FileParts cut(const PartFile& file);
  std::vector<std::string> all_names() const { return all_->field_names(); }
  void set_schema(const std::vector<std::string>& columns);

  CsvFormat format_;
  std::vector<std::string> column_names_;  // of files without a header
  std::vector<std::string> given_;         // columns whose type the user gave
  int64_t fragment_bytes_ = 0;
  std::shared_ptr<arrow::Schema> all_;     // of all columns of the files
  std::shared_ptr<arrow::Schema> schema_;  // of those that were asked for
  PartFiles files_;
};

void check_options(const ReadCsvOptions& options) {
  auto fail = [](const std::string& what) {
    throw Error(ErrorKind::kInvalidArgument, "read_csv: " + what);
  };
  for (char c : {options.delimiter, options.quote}) {
    if (c == '\n' || c == '\r') fail("a line end cannot be the .delimiter or .quote");
  }
  if (options.delimiter == '\0') fail("there must be a .delimiter");
  if (options.delimiter == options.quote) fail("the .delimiter cannot be the .quote, too");
  check_fragment_bytes(kCsv, options.fragment_bytes);
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

CsvSource::CsvSource(std::vector<FoundFile> files, const ReadCsvOptions& options)
    : format_{options.delimiter, options.quote, options.null_values, options.strings_can_be_null,
              options.quoted_can_be_null},
      column_names_(options.column_names),
      fragment_bytes_(options.fragment_bytes),
      files_(kCsv, std::move(files)) {
  require_distinct(options.columns, "the columns of read_csv");
  std::vector<std::string> names;
  CsvSample sample;
  // A file without rows does not show types.
  for (size_t i = 0; i < files_.count() && sample.rows == 0; ++i) {
    CsvFile file = files_.open(i);
    auto start = find_start(file, format_, column_names_);
    if (i == 0) {
      check_names(start.names, file.path);
      names = start.names;
    }
    require_same_header(start.names, file.path, names, files_.path(0));
    sample = take_sample(file, format_, start, options.column_types);
  }
  for (const auto& [name, type] : options.column_types) given_.push_back(name);
  all_ = sample.schema;
  files_.set_sample({std::max<int64_t>(sample.rows, 1), std::max<int64_t>(sample.bytes, 1)});
  for (const auto& name : options.columns) {
    if (all_->GetFieldByName(name)) continue;
    throw Error(ErrorKind::kNotFound,
                str("read_csv: in '", files_.path(0), "' ", no_such_column(name, names)));
  }
  set_schema(options.columns.empty() ? names : options.columns);
}

void CsvSource::set_schema(const std::vector<std::string>& columns) {
  arrow::FieldVector fields;
  for (const auto& name : columns) fields.push_back(all_->GetFieldByName(name));
  schema_ = arrow::schema(fields);
}

FileParts CsvSource::cut(const PartFile& file) {
  auto start = find_start(file, format_, column_names_);
  require_same_header(start.names, file.path, all_names(), files_.path(0));
  return cut_records(file, format_, start.offset, fragment_bytes_);
}

const std::vector<Fragment>& CsvSource::fragments() {
  return files_.fragments([this](const PartFile& file) { return cut(file); });
}

void CsvSource::read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
                     const TakeBatch& take) {
  const auto& part = files_.part(fragment);
  PartFile file = files_.open(part.file);
  auto bytes = files_.read(file, part);
  if (part.end == file.size) check_last_record(std::string_view(*bytes), file, format_, part.begin);
  CsvRecords(format_, all_, given_)
      .parse(std::string_view(*bytes), file, part.begin, columns, piece_rows, take);
}

std::string CsvSource::to_string() {
  fragments();
  return "read_csv: " + files_.to_string();
}

Json CsvSource::to_json() {
  fragments();
  Json types = Json::array();
  for (const auto& field : all_->fields()) types.push_back(csv_type_name(*field->type()));
  Json json = {{"names", all_names()},
               {"types", types},
               {"header", column_names_.empty()},
               {"given", given_},
               {"columns", schema_->field_names()},
               {"delimiter", std::string(1, format_.delimiter)},
               {"quote", format_.quote ? std::string(1, format_.quote) : std::string()},
               {"null_values", format_.null_values},
               {"strings_can_be_null", format_.strings_can_be_null},
               {"quoted_can_be_null", format_.quoted_can_be_null},
               {"fragment_bytes", fragment_bytes_}};
  files_.add_to(json);
  return json;
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
      fragment_bytes_(fields.integer("fragment_bytes", 1, kMaxFragmentBytes)),
      files_(kCsv, fields) {
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
}

}  // namespace

std::shared_ptr<Source> read_csv_source(const JsonFields& fields) {
  return std::make_shared<CsvSource>(fields);
}

Dataset read_csv(const std::string& path, const ReadCsvOptions& options) {
  return read_csv(std::vector<std::string>{path}, options);
}

Dataset read_csv(const std::vector<std::string>& paths, const ReadCsvOptions& options) {
  check_options(options);
  auto files = find_files(kCsv, paths);
  return dataset_of_files(kCsv, files, options.hive_partitions, options.columns,
                          [&](const auto& columns) {
                            auto of_files = options;
                            of_files.columns = columns;
                            return std::make_shared<CsvSource>(files, of_files);
                          });
}

}  // namespace manta::data
