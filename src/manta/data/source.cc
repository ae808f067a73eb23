#include <arrow/api.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/io_util.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <cstring>

#include "manta/base/error.h"
#include "manta/data/data_files_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/source_internal.h"
#include "manta/io/checksum.h"

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

// Of the bytes that the file's end says are its footer.
std::string footer_checksum(arrow::io::RandomAccessFile& file, int64_t size,
                            const std::string& doing) {
  constexpr int64_t kEnd = 8;  // the footer's length, and four letters
  auto read = [&](int64_t from, int64_t bytes) {
    auto buffer = file.ReadAt(from, bytes);
    if (!buffer.ok()) throw read_error(buffer.status(), doing);
    return *buffer;
  };
  auto end = read(std::max<int64_t>(size - kEnd, 0), kEnd);
  uint32_t length = 0;
  if (end->size() == kEnd) std::memcpy(&length, end->data(), sizeof(length));
  auto footer = read(std::max<int64_t>(size - kEnd - length, 0), length);
  Checksum checksum;
  checksum.add(footer->data(), static_cast<size_t>(footer->size()));
  return checksum.hex();
}

std::vector<int64_t> rows_of(const parquet::FileMetaData& footer, const std::string& path) {
  std::vector<int64_t> rows;
  int64_t all_rows = 0;
  for (int i = 0; i < footer.num_row_groups(); ++i) {
    rows.push_back(footer.RowGroup(i)->num_rows());
    if (rows.back() < 0 || rows.back() > kMaxRows - all_rows) {
      throw Error(ErrorKind::kCorrupt,
                  str("read_parquet: '", path, "' says that row group ", i, " has ", rows.back(),
                      " rows; the file is damaged: write it again, or leave "
                      "it out"));
    }
    all_rows += rows.back();
  }
  return rows;
}

[[noreturn]] void throw_changed(const std::string& path, const std::string& how) {
  throw Error(ErrorKind::kCorrupt,
              str("read_parquet: '", path, "' has changed since the plan was made: ", how,
                  "; build the data set again"));
}

void require_same(const FileContent& before, const FileContent& now, const std::string& path) {
  if (now.row_groups != before.row_groups) {
    throw_changed(path, str("it had ", before.row_groups.size(), " row groups and has ",
                            now.row_groups.size(), " now, or other numbers of rows in them"));
  }
  if (!before.size) return;
  if (now.size != before.size) {
    throw_changed(path, str("it had ", *before.size, " bytes and has ", *now.size));
  }
  if (now.footer != before.footer) throw_changed(path, "its footer is another one");
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
  for (auto& path : find_files(paths)) add_file(std::move(path));
  schema();
}

void Source::add_file(std::string path) {
  files_.push_back(std::move(path));
  contents_.push_back(std::make_unique<File>());
}

std::shared_ptr<arrow::Schema> Source::schema() {
  {
    std::lock_guard lock(mutex_);
    if (schema_) return schema_;
  }
  auto schema = schema_of_file(0, *footer(0));
  std::lock_guard lock(mutex_);
  if (!schema_) schema_ = std::move(schema);
  return schema_;
}

std::shared_ptr<arrow::Schema> Source::schema_of_file(int file,
                                                      const parquet::FileMetaData& footer) {
  const std::string& path = files_[static_cast<size_t>(file)];
  std::string doing = str("read_parquet: reading the schema of '", path, "'");
  std::shared_ptr<arrow::Schema> all;
  auto status = reading(doing, [&] {
    return parquet::arrow::FromParquetSchema(footer.schema(),
                                             parquet::default_arrow_reader_properties(),
                                             footer.key_value_metadata(), &all);
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

std::shared_ptr<parquet::FileMetaData> Source::footer(int index) {
  File& file = *contents_[static_cast<size_t>(index)];
  const std::string& path = files_[static_cast<size_t>(index)];
  std::lock_guard lock(file.mutex);
  if (file.footer) return file.footer;
  auto opened = open_data_file(path);
  std::string doing = str("read_parquet: '", path, "' is no Parquet file, or a damaged one");
  auto footer = reading(doing, [&] { return parquet::ReadMetaData(opened.file); });
  FileContent content{rows_of(*footer, path), opened.stamp.size,
                      footer_checksum(*opened.file, opened.stamp.size, doing)};
  if (file.content) require_same(*file.content, content, path);
  if (index > 0) check_same_columns(index, *schema_of_file(index, *footer));
  if (!file.content) file.content = std::move(content);
  file.stamp = opened.stamp;
  file.footer = std::move(footer);
  return file.footer;
}

DataFile Source::open_unchanged(int index) {
  const std::string& path = files_[static_cast<size_t>(index)];
  auto opened = open_data_file(path);
  File& file = *contents_[static_cast<size_t>(index)];
  std::lock_guard lock(file.mutex);
  if (opened.stamp != file.stamp) {
    throw_changed(path, "it was replaced or written to while the data set was in use");
  }
  return opened;
}

void Source::check_same_columns(int file, const arrow::Schema& schema) {
  const std::string& path = files_[static_cast<size_t>(file)];
  auto first = this->schema();
  auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kInvalidArgument,
                str("read_parquet: '", path, "' ", what, " as in '", files_[0],
                    "'; convert one of them, leave it out, or read only .columns on which all "
                    "files agree"));
  };
  for (const auto& field : first->fields()) {
    auto other = schema.GetFieldByName(field->name());
    if (!other) fail(str("has no column '", field->name(), "'"));
    if (!other->type()->Equals(*field->type())) {
      fail(str("has column '", field->name(), "' as ", other->type()->ToString(), ", not as ",
               field->type()->ToString()));
    }
  }
  for (const auto& field : schema.fields()) {
    if (!first->GetFieldByName(field->name())) {
      fail(str("has a column '", field->name(), "' more, not the same columns"));
    }
  }
}

const std::vector<Fragment>& Source::fragments() {
  schema();
  {
    std::lock_guard lock(mutex_);
    if (all_known_) return fragments_;
  }
  std::vector<Fragment> fragments;
  for (int file = 0; file < static_cast<int>(files_.size()); ++file) {
    auto footer = this->footer(file);
    for (int i = 0; i < footer->num_row_groups(); ++i) {
      fragments.push_back({file, i, footer->RowGroup(i)->num_rows()});
    }
  }
  std::lock_guard lock(mutex_);
  if (!all_known_) fragments_ = std::move(fragments);
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
    auto file = open_unchanged(fragment.file).file;
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
  Json files = Json::array();
  for (size_t i = 0; i < files_.size(); ++i) {
    std::lock_guard lock(contents_[i]->mutex);
    const FileContent& content = *contents_[i]->content;
    Json file = {{"path", files_[i]}, {"row_groups", content.row_groups}};
    if (content.size) {
      file["size"] = *content.size;
      file["footer"] = content.footer;
    }
    files.push_back(std::move(file));
  }
  return {{"files", files}, {"columns", columns_}};
}

std::shared_ptr<Source> Source::from_json(const JsonFields& fields) {
  std::shared_ptr<Source> source(new Source());
  source->columns_ = fields.texts("columns", kLongestName);
  require_distinct(source->columns_, "the columns of a plan's source");
  int64_t all_rows = 0;
  size_t count = fields.array("files").size();
  for (size_t index = 0; index < count; ++index) {
    JsonFields file = fields.element("files", index);
    auto path = file.text("path");
    if (path.empty() || path[0] != '/') file.fail("path", "an absolute path");
    FileContent content{row_counts(file, "row_groups"), {}, {}};
    for (size_t i = 0; i < content.row_groups.size(); ++i) {
      int64_t rows = content.row_groups[i];
      if (rows > kMaxRows - all_rows) file.fail("row_groups", "small enough");
      all_rows += rows;
      source->fragments_.push_back({static_cast<int>(index), static_cast<int>(i), rows});
    }
    if (file.has("size")) {  // not in plans of older versions
      content.size = file.integer("size", 0, INT64_MAX);
      content.footer = file.text("footer");
    }
    source->add_file(std::move(path));
    source->contents_.back()->content = std::move(content);
  }
  if (source->files_.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "a plan without files");
  }
  source->all_known_ = true;
  return source;
}

}  // namespace manta::data
