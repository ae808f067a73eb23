#include <arrow/api.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/io_util.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include <algorithm>

#include "manta/base/error.h"
#include "manta/data/data_files_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/json_fields_internal.h"
#include "manta/data/source_internal.h"

namespace manta::data {
namespace {

// What a Parquet library throws, as the status that it was made of.
arrow::Status status_of(const std::exception& error) {
  if (auto* wrapped = dynamic_cast<const parquet::ParquetStatusException*>(&error)) {
    return wrapped->status();
  }
  if (dynamic_cast<const std::bad_alloc*>(&error)) {
    return arrow::Status::OutOfMemory("not enough memory");
  }
  if (std::string_view(error.what()).starts_with("Not yet implemented")) {
    return arrow::Status::NotImplemented(error.what());
  }
  return arrow::Status::Invalid(error.what());
}

// Runs what may throw an exception of the Parquet library or of the standard one.
template <class Call>
auto reading(const std::string& doing, Call call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw read_error(status_of(error), doing);
  }
}

}  // namespace

Error read_error(const arrow::Status& status, const std::string& doing) {
  std::string what = str(doing, ": ", status.message());
  if (status.IsOutOfMemory() || status.IsCapacityError()) {
    return Error(ErrorKind::kResources,
                 what + "; read fewer columns or smaller row groups, or give it more memory");
  }
  if (status.IsCancelled()) return Error(ErrorKind::kCancelled, what);
  if (status.IsNotImplemented()) {
    return Error(ErrorKind::kInvalidArgument,
                 what +
                     "; this is not supported: write the file in another way, or leave the "
                     "column out");
  }
  // The Parquet library calls damage an I/O error, too, but then there is no errno.
  if (status.IsIOError() && arrow::internal::ErrnoFromStatus(status) != 0) {
    return Error(ErrorKind::kIo, what);
  }
  return Error(ErrorKind::kCorrupt,
               what +
                   "; the file is damaged, or has a feature that cannot be read: write it again, "
                   "or leave it out");
}

Source::Source(const std::vector<std::string>& paths, std::vector<std::string> columns)
    : columns_(std::move(columns)) {
  if (paths.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "read_parquet: no path was given");
  }
  require_distinct(columns_, "the columns of read_parquet");
  files_ = find_files(paths);
  footers_.resize(files_.size());
  row_groups_.resize(files_.size());
  schema();
}

std::shared_ptr<arrow::Schema> Source::schema() {
  std::lock_guard lock(mutex_);
  if (schema_) return schema_;
  auto schema = schema_of_file(0);
  schema_ = schema;
  return schema_;
}

std::shared_ptr<arrow::Schema> Source::schema_of_file(int file) {
  const std::string& path = files_[static_cast<size_t>(file)];
  auto footer = load_footer(file);
  std::string doing = str("read_parquet: reading the schema of '", path, "'");
  std::shared_ptr<arrow::Schema> all;
  auto status = reading(doing, [&] {
    return parquet::arrow::FromParquetSchema(footer->schema(),
                                             parquet::default_arrow_reader_properties(),
                                             footer->key_value_metadata(), &all);
  });
  if (!status.ok()) throw read_error(status, doing);
  // Only what can differ between rows counts: files may say differently whether nulls are allowed.
  arrow::FieldVector fields;
  for (const auto& name : columns_.empty() ? all->field_names() : columns_) {
    auto found = all->GetAllFieldsByName(name);
    if (found.size() > 1) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("read_parquet: '", path, "' has ", found.size(), " columns named '", name,
                      "'; write it with distinct names, or name the .columns to read without it"));
    }
    if (found.size() == 1) fields.push_back(arrow::field(name, found[0]->type()));
    if (found.empty() && file == 0) {
      throw Error(ErrorKind::kNotFound,
                  str("read_parquet: in '", path, "' ", no_such_column(name, all->field_names())));
    }
  }
  return arrow::schema(fields);
}

std::shared_ptr<parquet::FileMetaData> Source::footer(int file) {
  std::lock_guard lock(mutex_);
  return load_footer(file);
}

std::shared_ptr<parquet::FileMetaData> Source::load_footer(int file) {
  auto index = static_cast<size_t>(file);
  auto& footer = footers_[index];
  if (footer) return footer;
  const std::string& path = files_[index];
  auto opened = open_data_file(path);
  auto loaded = reading(str("read_parquet: '", path, "' is no Parquet file, or a damaged one"),
                        [&] { return parquet::ReadMetaData(opened); });
  std::vector<int64_t> rows;
  int64_t all_rows = 0;
  for (int i = 0; i < loaded->num_row_groups(); ++i) {
    rows.push_back(loaded->RowGroup(i)->num_rows());
    if (rows.back() < 0 || rows.back() > kMaxRows - all_rows) {
      throw Error(ErrorKind::kCorrupt,
                  str("read_parquet: '", path, "' says that row group ", i, " has ", rows.back(),
                      " rows; the file is damaged: write it again, or leave "
                      "it out"));
    }
    all_rows += rows.back();
  }
  if (all_known_ && rows != row_groups_[index]) {
    throw Error(ErrorKind::kCorrupt,
                str("read_parquet: '", path, "' has changed since the plan was made: it had ",
                    row_groups_[index].size(), " row groups and has ", rows.size(),
                    " now, or other numbers of rows in them; build the data set again"));
  }
  row_groups_[index] = std::move(rows);
  footer = std::move(loaded);
  return footer;
}

void Source::check_same_columns(int file, const arrow::Schema& schema) {
  const std::string& path = files_[static_cast<size_t>(file)];
  auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kInvalidArgument,
                str("read_parquet: '", path, "' ", what, " as in '", files_[0],
                    "'; convert one of them, leave it out, or read only .columns on which all "
                    "files agree"));
  };
  for (const auto& field : schema_->fields()) {
    auto other = schema.GetFieldByName(field->name());
    if (!other) fail(str("has no column '", field->name(), "'"));
    if (!other->type()->Equals(*field->type())) {
      fail(str("has column '", field->name(), "' as ", other->type()->ToString(), ", not as ",
               field->type()->ToString()));
    }
  }
  for (const auto& field : schema.fields()) {
    if (!schema_->GetFieldByName(field->name())) {
      fail(str("has a column '", field->name(), "' more, not the same columns"));
    }
  }
}

const std::vector<Fragment>& Source::fragments() {
  schema();
  std::lock_guard lock(mutex_);
  if (!fragments_.empty() || all_known_) return fragments_;
  std::vector<Fragment> fragments;
  for (int file = 0; file < static_cast<int>(files_.size()); ++file) {
    load_footer(file);
    if (file > 0) check_same_columns(file, *schema_of_file(file));
    const auto& rows = row_groups_[static_cast<size_t>(file)];
    for (size_t i = 0; i < rows.size(); ++i) {
      fragments.push_back({file, static_cast<int>(i), rows[i]});
    }
  }
  fragments_ = std::move(fragments);
  all_known_ = true;
  return fragments_;
}

void Source::read(const Fragment& fragment, const std::vector<std::string>& columns,
                  int64_t piece_rows,
                  const std::function<void(std::shared_ptr<arrow::RecordBatch>)>& take) {
  auto footer = this->footer(fragment.file);
  if (columns.empty()) {
    for (int64_t row = 0; row < fragment.rows; row += piece_rows) {
      take(arrow::RecordBatch::Make(arrow::schema({}), std::min(piece_rows, fragment.rows - row),
                                    arrow::ArrayVector()));
    }
    return;
  }
  std::vector<int> leaves;
  const auto& schema = *footer->schema();
  for (int i = 0; i < schema.num_columns(); ++i) {
    const std::string& root = schema.GetColumnRoot(i)->name();
    if (std::find(columns.begin(), columns.end(), root) != columns.end()) leaves.push_back(i);
  }
  parquet::ArrowReaderProperties properties(/*use_threads=*/false);
  properties.set_pre_buffer(false);
  std::string doing = str("reading ", describe(fragment));
  auto get = [&](auto call) {
    auto result = reading(doing, call);
    if (!result.ok()) throw read_error(result.status(), doing);
    return std::move(result).ValueUnsafe();
  };
  auto reader = open_files_.take(fragment.file);
  if (!reader) {
    auto file = open_data_file(files_[static_cast<size_t>(fragment.file)]);
    auto parquet_reader = reading(doing, [&] {
      return parquet::ParquetFileReader::Open(file, parquet::default_reader_properties(), footer);
    });
    reader = get([&] {
      return parquet::arrow::FileReader::Make(arrow::default_memory_pool(),
                                              std::move(parquet_reader), properties);
    });
  }
  reader->set_batch_size(piece_rows);
  auto batches = get([&] { return reader->GetRecordBatchReader({fragment.row_group}, leaves); });
  int64_t rows = 0;
  while (auto batch = get([&] { return batches->Next(); })) {
    rows += batch->num_rows();
    if (rows <= fragment.rows) take(std::move(batch));
  }
  if (rows != fragment.rows) {
    throw Error(ErrorKind::kCorrupt,
                str(doing, ": its footer says that it has ", fragment.rows, " rows, and it has ",
                    rows, "; the file is damaged: write it again, or leave it out"));
  }
  batches.reset();
  open_files_.put(fragment.file, std::move(reader));
}

std::string Source::describe(const Fragment& fragment) const {
  return str("row group ", fragment.row_group, " of '", files_[static_cast<size_t>(fragment.file)],
             "'");
}

Json Source::to_json() {
  fragments();
  std::lock_guard lock(mutex_);
  Json files = Json::array();
  for (size_t i = 0; i < files_.size(); ++i) {
    files.push_back({{"path", files_[i]}, {"row_groups", row_groups_[i]}});
  }
  return {{"files", files}, {"columns", columns_}};
}

std::shared_ptr<Source> Source::from_json(const Json& json) {
  JsonFields fields(json, "the source");
  std::shared_ptr<Source> source(new Source());
  source->columns_ = fields.texts("columns");
  require_distinct(source->columns_, "the columns of a plan's source");
  int64_t all_rows = 0;
  for (const auto& each : fields.list("files")) {
    int index = static_cast<int>(source->files_.size());
    JsonFields file(each, str("file ", index));
    auto path = file.text("path");
    if (path.empty() || path[0] != '/' || path.find('\0') != std::string::npos) {
      file.fail("path", "an absolute path");
    }
    auto rows = file.row_counts("row_groups");
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] > kMaxRows - all_rows) file.fail("row_groups", "small enough");
      all_rows += rows[i];
      source->fragments_.push_back({index, static_cast<int>(i), rows[i]});
    }
    source->files_.push_back(std::move(path));
    source->row_groups_.push_back(std::move(rows));
  }
  if (source->files_.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "a plan without files");
  }
  source->footers_.resize(source->files_.size());
  source->all_known_ = true;
  return source;
}

}  // namespace manta::data
