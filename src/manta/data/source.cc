#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <filesystem>

#include "manta/base/error.h"
#include "manta/data/expression_internal.h"
#include "manta/data/source_internal.h"
#include "manta/io/arrow_status.h"

namespace manta::data {
namespace {

namespace fs = std::filesystem;

void add_folder(const std::string& folder, std::vector<std::string>& files) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    std::string name = entry.path().filename();
    bool hidden = name.starts_with(".") || name.starts_with("_");
    if (entry.is_regular_file() && !hidden && entry.path().extension() == ".parquet") {
      found.push_back(fs::absolute(entry.path()));
    }
  }
  if (found.empty()) {
    throw Error(ErrorKind::kNotFound, str("read_parquet: folder '", folder,
                                          "' holds no file whose name ends in .parquet"));
  }
  std::sort(found.begin(), found.end());
  files.insert(files.end(), found.begin(), found.end());
}

std::shared_ptr<arrow::io::RandomAccessFile> open_file(const std::string& path) {
  return check(arrow::io::ReadableFile::Open(path), str("read_parquet: opening '", path, "'"));
}

[[noreturn]] void throw_not_parquet(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::kCorrupt,
              str("read_parquet: '", path, "' is not a Parquet file, or a damaged one (", why,
                  "); write it again, or leave it out"));
}

}  // namespace

Source::Source(const std::vector<std::string>& paths, std::vector<std::string> columns)
    : columns_(std::move(columns)) {
  if (paths.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "read_parquet: no path was given");
  }
  require_distinct(columns_, "the columns of read_parquet");
  for (const auto& path : paths) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      try {
        add_folder(path, files_);
      } catch (const fs::filesystem_error& error) {
        throw Error(ErrorKind::kIo, str("read_parquet: listing '", path, "': ", error.what()));
      }
    } else if (fs::exists(path, ignored)) {
      files_.push_back(fs::absolute(path));
    } else {
      throw Error(ErrorKind::kNotFound,
                  str("read_parquet: '", path, "' does not exist (looked for it from '",
                      fs::current_path().string(), "')"));
    }
  }
  footers_.resize(files_.size());
  row_groups_.resize(files_.size());
  schema();
}

std::shared_ptr<arrow::Schema> Source::schema() {
  std::lock_guard lock(mutex_);
  if (schema_) return schema_;
  auto schema = schema_of_footer(*load_footer(0));
  for (const auto& name : columns_) {
    if (schema->GetFieldIndex(name) < 0) {
      std::shared_ptr<arrow::Schema> all;
      check(parquet::arrow::FromParquetSchema(load_footer(0)->schema(), &all),
            str("read_parquet: reading the schema of '", files_[0], "'"));
      throw Error(ErrorKind::kNotFound, str("read_parquet: in '", files_[0], "' ",
                                            no_such_column(name, all->field_names())));
    }
  }
  schema_ = schema;
  return schema_;
}

std::shared_ptr<arrow::Schema> Source::schema_of_footer(const parquet::FileMetaData& footer) const {
  std::shared_ptr<arrow::Schema> all;
  check(
      parquet::arrow::FromParquetSchema(footer.schema(), parquet::default_arrow_reader_properties(),
                                        footer.key_value_metadata(), &all),
      "read_parquet: reading a schema");
  // Only what can differ between rows counts: files may say differently whether nulls are allowed.
  arrow::FieldVector fields;
  for (const auto& name : columns_.empty() ? all->field_names() : columns_) {
    auto field = all->GetFieldByName(name);
    if (field) fields.push_back(arrow::field(name, field->type()));
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
  std::shared_ptr<parquet::FileMetaData> loaded;
  auto opened = open_file(path);
  try {
    loaded = parquet::ReadMetaData(opened);
  } catch (const parquet::ParquetException& error) {
    throw_not_parquet(path, error.what());
  }
  std::vector<int64_t> rows;
  for (int i = 0; i < loaded->num_row_groups(); ++i)
    rows.push_back(loaded->RowGroup(i)->num_rows());
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
    auto footer = load_footer(file);
    if (file > 0) check_same_columns(file, *schema_of_footer(*footer));
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
  if (columns.empty()) {
    for (int64_t row = 0; row < fragment.rows; row += piece_rows) {
      take(arrow::RecordBatch::Make(arrow::schema({}), std::min(piece_rows, fragment.rows - row),
                                    arrow::ArrayVector()));
    }
    return;
  }
  auto footer = this->footer(fragment.file);
  const std::string& path = files_[static_cast<size_t>(fragment.file)];
  std::vector<int> leaves;
  const auto& schema = *footer->schema();
  for (int i = 0; i < schema.num_columns(); ++i) {
    const std::string& root = schema.GetColumnRoot(i)->name();
    if (std::find(columns.begin(), columns.end(), root) != columns.end()) leaves.push_back(i);
  }
  parquet::ArrowReaderProperties properties(/*use_threads=*/false);
  properties.set_batch_size(piece_rows);
  properties.set_pre_buffer(false);
  auto fail = [&](const std::string& why) {
    throw Error(ErrorKind::kCorrupt, str("reading ", describe(fragment), ": ", why,
                                         "; the file is damaged: write it again, or leave it out"));
  };
  auto get = [&](auto result) {
    if (!result.ok()) fail(result.status().message());
    return std::move(result).ValueUnsafe();
  };
  auto file = open_file(path);
  std::unique_ptr<parquet::ParquetFileReader> parquet_reader;
  try {
    parquet_reader =
        parquet::ParquetFileReader::Open(file, parquet::default_reader_properties(), footer);
  } catch (const parquet::ParquetException& error) {
    fail(error.what());
  }
  auto reader = get(parquet::arrow::FileReader::Make(arrow::default_memory_pool(),
                                                     std::move(parquet_reader), properties));
  auto batches = get(reader->GetRecordBatchReader({fragment.row_group}, leaves));
  while (auto batch = get(batches->Next())) take(std::move(batch));
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
  std::shared_ptr<Source> source(new Source());
  json.at("columns").get_to(source->columns_);
  for (const auto& file : json.at("files")) {
    int index = static_cast<int>(source->files_.size());
    source->files_.push_back(file.at("path"));
    source->row_groups_.push_back(file.at("row_groups"));
    const auto& rows = source->row_groups_.back();
    for (size_t i = 0; i < rows.size(); ++i) {
      source->fragments_.push_back({index, static_cast<int>(i), rows[i]});
    }
  }
  if (source->files_.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "a plan without files");
  }
  source->footers_.resize(source->files_.size());
  source->all_known_ = true;
  return source;
}

}  // namespace manta::data
