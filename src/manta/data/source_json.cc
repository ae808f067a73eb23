#include <arrow/api.h>
#include <arrow/io/interfaces.h>

#include "manta/base/error_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/json_lines_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/partitions_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/sources.h"

namespace manta::data {
namespace {

/// Files of JSON objects, one a line; a fragment is some of a file's lines.
class JsonSource final : public FileSource {
 public:
  JsonSource(std::vector<FoundFile> files, const ReadJsonOptions& options);
  explicit JsonSource(const JsonFields& fields);

  std::string_view name() const override { return "json"; }
  std::string to_string() override {
    fragments();
    return "read_json: " + files_.to_string();
  }
  Json to_json() override;
  std::string why_not_stored() const override { return files_.why_not_stored(); }
  std::shared_ptr<arrow::Schema> schema() override { return schema_; }
  const std::vector<Fragment>& fragments() override {
    return files_.fragments([this](const PartFile& file) {
      return cut_lines(file, after_mark(file), fragment_bytes_);
    });
  }
  bool rules_out(size_t, const std::vector<Bound>&) override { return false; }
  void read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
            const TakeBatch& take) override;
  std::string describe(size_t fragment) const override { return files_.describe(fragment); }
  std::vector<std::string> files() const override { return files_.paths(); }
  size_t file_of(size_t fragment) const override { return files_.part(fragment).file; }

 private:
  void infer(const ReadJsonOptions& options);

  std::shared_ptr<arrow::Schema> schema_;
  bool ignore_unknown_ = false;  // fields that are not in the schema
  int64_t fragment_bytes_ = 0;
  PartFiles files_;
};

JsonSource::JsonSource(std::vector<FoundFile> files, const ReadJsonOptions& options)
    : ignore_unknown_(options.ignore_unknown_fields || !options.columns.empty()),
      fragment_bytes_(options.fragment_bytes),
      files_(kJsonLines, std::move(files)) {
  require_distinct(options.columns, "the columns of read_json");
  infer(options);
}

void JsonSource::infer(const ReadJsonOptions& options) {
  std::map<std::string, std::shared_ptr<arrow::DataType>> given;
  for (const auto& [name, type] : options.column_types) {
    if (!options.columns.empty() && !contains(options.columns, name)) continue;
    given.emplace(name, type_from_json(type, kJsonLines.reader));
  }
  // A file without lines does not show types.
  for (size_t i = 0; i < files_.count() && !schema_; ++i) {
    auto sample = infer_lines(files_.open(i), options.columns, given);
    if (!sample.has_rows) continue;
    schema_ = sample.schema;
    files_.set_sample(sample.rows);
  }
  if (schema_) return;
  arrow::FieldVector fields;
  for (const auto& [name, type] : given) fields.push_back(arrow::field(name, type));
  if (fields.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("read_json: '", files_.path(0), "' ",
                    files_.count() > 1 ? "and the other files have" : "has",
                    " no lines, so nobody knows the columns; leave it out, or give .column_types"));
  }
  schema_ = arrow::schema(fields);
}

void JsonSource::read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
                      const TakeBatch& take) {
  const auto& part = files_.part(fragment);
  PartFile file = files_.open(part.file);
  auto bytes = files_.read(file, part);
  arrow::FieldVector fields;
  for (const auto& name : columns) fields.push_back(schema_->GetFieldByName(name));
  auto names = schema_->field_names();
  JsonRowsOptions options{arrow::schema(fields), {names.begin(), names.end()}, ignore_unknown_};
  read_lines(std::string_view(*bytes), file, part.begin, options, piece_rows, take);
}

Json JsonSource::to_json() {
  fragments();
  Json types = Json::array();
  for (const auto& field : schema_->fields()) types.push_back(type_to_json(*field->type()));
  Json json = {{"names", schema_->field_names()},
               {"types", types},
               {"ignore_unknown", ignore_unknown_},
               {"fragment_bytes", fragment_bytes_}};
  files_.add_to(json);
  return json;
}

JsonSource::JsonSource(const JsonFields& fields)
    : ignore_unknown_(fields.boolean("ignore_unknown")),
      fragment_bytes_(fields.integer("fragment_bytes", 1, kMaxFragmentBytes)),
      files_(kJsonLines, fields) {
  auto names = fields.texts("names", kLongestName);
  const Json& types = fields.array("types");
  if (names.empty() || names.size() != types.size()) fields.fail("types", "one for each name");
  require_distinct(names, "the columns of a plan's source");
  arrow::FieldVector all;
  for (size_t i = 0; i < names.size(); ++i) {
    all.push_back(arrow::field(names[i], type_from_json(types[i], kJsonLines.reader)));
  }
  schema_ = arrow::schema(all);
}

}  // namespace

std::shared_ptr<Source> read_json_source(const JsonFields& fields) {
  return std::make_shared<JsonSource>(fields);
}

Dataset read_json(const std::string& path, const ReadJsonOptions& options) {
  return read_json(std::vector<std::string>{path}, options);
}

Dataset read_json(const std::vector<std::string>& paths, const ReadJsonOptions& options) {
  check_fragment_bytes(kJsonLines, options.fragment_bytes);
  auto files = find_files(kJsonLines, paths);
  return dataset_of_files(kJsonLines, files, options.hive_partitions, options.columns,
                          [&](const auto& columns) {
                            auto of_files = options;
                            of_files.columns = columns;
                            return std::make_shared<JsonSource>(files, of_files);
                          });
}

}  // namespace manta::data
