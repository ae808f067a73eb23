#include <arrow/api.h>
#include <arrow/io/interfaces.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/size_statistics.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include "manta/base/error_internal.h"
#include "manta/data/bounds_internal.h"
#include "manta/data/data_files_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/expression_internal.h"
#include "manta/data/open_files_internal.h"
#include "manta/data/part_files_internal.h"
#include "manta/data/partitions_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/recycling_pool_internal.h"
#include "manta/data/row_group_batches_internal.h"
#include "manta/data/source_internal.h"
#include "manta/io/checksum_internal.h"

namespace manta::data {
namespace {

constexpr FileKind kParquet = {"read_parquet", ".parquet"};
// Of the rows that are decoded at a time.
constexpr int64_t kPieceBytes = 32 << 20;
// A column of a row group with more is read in parts of kReadBytes, and not at once.
constexpr int64_t kLargeChunk = 64 << 20;
constexpr int64_t kReadBytes = 4 << 20;

// About as many as its values take, without encodings if the file says that.
int64_t bytes_of_chunk(const parquet::ColumnChunkMetaData& chunk) {
  auto sizes = chunk.size_statistics();
  int64_t plain = sizes ? sizes->unencoded_byte_array_data_bytes.value_or(0) : 0;
  return std::max(chunk.total_uncompressed_size(), plain);
}

/// What a plan knows of a file, and by which it sees that the file has changed.
struct FileContent {
  std::vector<int64_t> row_groups;  ///< Rows of each.
  /// Bytes of the file, and the checksum of its footer, which says where all values are and,
  /// mostly, between what they lie. Nothing and "" in a plan of an older version.
  std::optional<int64_t> size;
  std::string footer;
};

// What a Parquet library throws, as the status that it was made of.
arrow::Status status_of(const std::exception& error) {
  if (auto* wrapped = dynamic_cast<const parquet::ParquetStatusException*>(&error)) {
    return wrapped->status();
  }
  if (dynamic_cast<const std::bad_alloc*>(&error)) {
    return arrow::Status::OutOfMemory("not enough memory");
  }
  // Its exceptions for features that it lacks differ from others by these words only.
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

/// Parquet files whose rows follow each other; a fragment is a row group. Footers are read when
/// something needs them, once; a file that has changed since then, or since the plan was stored, is
/// Error(kCorrupt). Threads read different files at the same time.
class ParquetSource final : public FileSource {
 public:
  /// `columns`: those that must be there, of equal types in all files; none: all of the first
  /// file's.
  ParquetSource(const std::vector<FoundFile>& files, std::vector<std::string> columns);
  explicit ParquetSource(const JsonFields& fields);

  std::string_view name() const override { return "parquet"; }
  std::string to_string() override;
  Json to_json() override;
  std::string why_not_stored() const override { return data::why_not_stored(files_); }
  std::shared_ptr<arrow::Schema> schema() override;
  const std::vector<Fragment>& fragments() override;
  bool rules_out(size_t fragment, const std::vector<Bound>& bounds) override;
  void read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
            const TakeBatch& take) override {
    read_rows(fragment, columns, piece_rows, /*coded=*/false, take);
  }
  void read_coded(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
                  const TakeBatch& take) override {
    // Column by column, which a remote file would be asked for one after the other.
    bool coded = !is_remote(files_[file_of(fragment)]);
    read_rows(fragment, columns, piece_rows, coded, take);
  }
  std::string describe(size_t fragment) const override;
  std::vector<std::string> files() const override { return files_; }
  size_t file_of(size_t fragment) const override {
    return static_cast<size_t>(row_groups_[fragment].file);
  }

 private:
  struct RowGroup {
    int file = 0;
    int number = 0;
    int64_t rows = 0;
  };
  struct File {
    std::mutex mutex;  // of what follows; held while the footer is read
    std::shared_ptr<parquet::FileMetaData> footer;  // once it was read
    FileStamp stamp;                                // of the file that it was read from
    std::optional<FileContent> content;             // from JSON, or of the footer
  };

  void add_file(std::string path);
  void add_row_group(const RowGroup& row_group);
  void read_rows(size_t index, const std::vector<std::string>& columns, int64_t piece_rows,
                 bool coded, const TakeBatch& take);
  std::unique_ptr<parquet::arrow::FileReader> reader_of(int file, bool in_parts,
                                                        const std::string& doing);
  std::shared_ptr<parquet::FileMetaData> footer(int file);
  std::shared_ptr<arrow::Schema> schema_of_file(int file, const parquet::FileMetaData& footer);
  void check_same_columns(int file, const arrow::Schema& schema);
  DataFile open_unchanged(int file);

  std::vector<std::string> files_;
  std::vector<std::string> columns_;
  OpenFiles open_files_;
  std::vector<std::unique_ptr<File>> contents_;  // by file; a lock of one is taken before mutex_
  std::mutex mutex_;                             // of everything below
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<RowGroup> row_groups_;
  std::vector<Fragment> fragments_;
  bool all_known_ = false;  // the two before it, which then never change
};

ParquetSource::ParquetSource(const std::vector<FoundFile>& files, std::vector<std::string> columns)
    : columns_(std::move(columns)) {
  require_distinct(columns_, "the columns of read_parquet");
  for (const auto& file : files) add_file(file.path);
  schema();
}

void ParquetSource::add_file(std::string path) {
  files_.push_back(std::move(path));
  contents_.push_back(std::make_unique<File>());
}

std::shared_ptr<arrow::Schema> ParquetSource::schema() {
  {
    std::lock_guard lock(mutex_);
    if (schema_) return schema_;
  }
  auto schema = schema_of_file(0, *footer(0));
  std::lock_guard lock(mutex_);
  if (!schema_) schema_ = std::move(schema);
  return schema_;
}

std::shared_ptr<arrow::Schema> ParquetSource::schema_of_file(int file,
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
  // Only what can differ between rows counts: files may say differently whether nulls are allowed,
  // in a column and inside of its lists and structs.
  arrow::FieldVector fields;
  for (const auto& name : columns_.empty() ? all->field_names() : columns_) {
    auto found = all->GetAllFieldsByName(name);
    if (found.size() > 1) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("read_parquet: '", path, "' has ", found.size(), " columns named '", name,
                      "'; write it with distinct names, or name the .columns to read without it"));
    }
    if (found.size() == 1)
      fields.push_back(arrow::field(name, with_nulls_allowed(found[0]->type())));
    if (found.empty() && file == 0) {
      throw Error(ErrorKind::kNotFound,
                  str("read_parquet: in '", path, "' ", no_such_column(name, all->field_names())));
    }
  }
  return arrow::schema(fields);
}

std::shared_ptr<parquet::FileMetaData> ParquetSource::footer(int index) {
  File& file = *contents_[static_cast<size_t>(index)];
  const std::string& path = files_[static_cast<size_t>(index)];
  std::lock_guard lock(file.mutex);
  if (file.footer) return file.footer;
  auto opened = open_data_file(kParquet, path);
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

DataFile ParquetSource::open_unchanged(int index) {
  const std::string& path = files_[static_cast<size_t>(index)];
  auto opened = open_data_file(kParquet, path);
  File& file = *contents_[static_cast<size_t>(index)];
  std::lock_guard lock(file.mutex);
  if (opened.stamp != file.stamp) {
    throw_changed(path, "it was replaced or written to while the data set was in use");
  }
  return opened;
}

void ParquetSource::check_same_columns(int file, const arrow::Schema& schema) {
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

void ParquetSource::add_row_group(const RowGroup& row_group) {
  row_groups_.push_back(row_group);
  fragments_.push_back({row_group.rows, row_group.rows});
}

const std::vector<Fragment>& ParquetSource::fragments() {
  {
    std::lock_guard lock(mutex_);
    if (all_known_) return fragments_;
  }
  std::vector<std::vector<int64_t>> rows;
  for (int file = 0; file < static_cast<int>(files_.size()); ++file) {
    footer(file);
    File& content = *contents_[static_cast<size_t>(file)];
    std::lock_guard lock(content.mutex);
    rows.push_back(content.content->row_groups);
  }
  std::lock_guard lock(mutex_);
  if (all_known_) return fragments_;
  for (size_t file = 0; file < rows.size(); ++file) {
    for (size_t i = 0; i < rows[file].size(); ++i) {
      add_row_group({static_cast<int>(file), static_cast<int>(i), rows[file][i]});
    }
  }
  all_known_ = true;
  return fragments_;
}

bool ParquetSource::rules_out(size_t fragment, const std::vector<Bound>& bounds) {
  if (bounds.empty()) return false;
  const RowGroup& row_group = row_groups_[fragment];
  return excluded(bounds, *footer(row_group.file), row_group.number);
}

std::unique_ptr<parquet::arrow::FileReader> ParquetSource::reader_of(int file_index, bool in_parts,
                                                                     const std::string& doing) {
  if (auto reader = open_files_.take(file_index, in_parts)) return reader;
  auto footer = this->footer(file_index);
  auto file = open_unchanged(file_index).file;
  auto* pool = &RecyclingPool::instance();
  parquet::ReaderProperties file_properties(pool);
  parquet::ArrowReaderProperties properties(/*use_threads=*/false);
  if (in_parts) {
    file_properties.enable_buffered_stream();
    file_properties.set_buffer_size(kReadBytes);
    properties.set_pre_buffer(false);
  } else {
    // Few large requests, instead of one for each column.
    properties.set_pre_buffer(is_remote(files_[static_cast<size_t>(file_index)]));
  }
  auto made = reading(doing, [&] {
    return parquet::arrow::FileReader::Make(
        pool, parquet::ParquetFileReader::Open(file, file_properties, footer), properties);
  });
  if (!made.ok()) throw read_error(made.status(), doing);
  return std::move(made).ValueUnsafe();
}

void ParquetSource::read_rows(size_t index, const std::vector<std::string>& columns,
                              int64_t piece_rows, bool coded, const TakeBatch& take) {
  const RowGroup& fragment = row_groups_[index];
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
  std::string doing = str("reading ", describe(index));
  int64_t bytes = 0;
  bool in_parts = false;
  reading(doing, [&] {
    auto row_group = footer->RowGroup(fragment.number);
    for (int leaf : leaves) {
      auto chunk = row_group->ColumnChunk(leaf);
      bytes += bytes_of_chunk(*chunk);
      in_parts = in_parts || chunk->total_compressed_size() > kLargeChunk;
    }
    return true;
  });
  auto reader = reader_of(fragment.file, in_parts, doing);
  int64_t row_bytes = std::max<int64_t>(bytes / std::max<int64_t>(fragment.rows, 1), 1);
  const int64_t most_rows = std::clamp<int64_t>(kPieceBytes / row_bytes, 1, piece_rows);
  auto all_columns = coded ? this->schema() : nullptr;
  std::optional<RowGroupBatches> batches;
  reading(doing, [&] {
    batches.emplace(
        *reader, leaves,
        RowGroupBatches::Options{fragment.number, fragment.rows, most_rows, all_columns.get()});
    return true;
  });
  int64_t rows = 0;
  while (auto batch = reading(doing, [&] { return batches->next(); })) {
    rows += batch->num_rows();
    if (rows <= fragment.rows) take(with_nulls_allowed(*batch));
  }
  if (rows != fragment.rows) {
    throw Error(ErrorKind::kCorrupt,
                str(doing, ": its footer says that it has ", fragment.rows, " rows, and it has ",
                    rows, "; the file is damaged: write it again, or leave it out"));
  }
  batches.reset();
  // Each read of a remote file is a request, which gets what is there by then.
  if (is_remote(files_[static_cast<size_t>(fragment.file)])) open_unchanged(fragment.file);
  open_files_.put(fragment.file, in_parts, std::move(reader));
}

std::string ParquetSource::describe(size_t fragment) const {
  const RowGroup& row_group = row_groups_[fragment];
  return str("row group ", row_group.number, " of '", files_[static_cast<size_t>(row_group.file)],
             "'");
}

std::string ParquetSource::to_string() {
  return str("read_parquet: ", files_.size(), " files, ", fragments().size(),
             " row groups; first file '", files_[0], "'");
}

Json ParquetSource::to_json() {
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

ParquetSource::ParquetSource(const JsonFields& fields)
    : columns_(fields.texts("columns", kLongestName)) {
  require_distinct(columns_, "the columns of a plan's source");
  int64_t all_rows = 0;
  size_t count = fields.array("files").size();
  for (size_t index = 0; index < count; ++index) {
    JsonFields file = fields.element("files", index);
    auto path = file_path(file);
    FileContent content{row_counts(file, "row_groups"), {}, {}};
    for (size_t i = 0; i < content.row_groups.size(); ++i) {
      int64_t rows = content.row_groups[i];
      if (rows > kMaxRows - all_rows) file.fail("row_groups", "small enough");
      all_rows += rows;
      add_row_group({static_cast<int>(index), static_cast<int>(i), rows});
    }
    if (file.has("size")) {  // not in plans of older versions
      content.size = file.integer("size", 0, INT64_MAX);
      content.footer = file.text("footer");
    }
    add_file(std::move(path));
    contents_.back()->content = std::move(content);
  }
  if (files_.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "a plan without files");
  }
  all_known_ = true;
}

}  // namespace

std::shared_ptr<Source> read_parquet_source(const JsonFields& fields) {
  return std::make_shared<ParquetSource>(fields);
}

Dataset read_parquet(const std::string& path, const ReadParquetOptions& options) {
  return read_parquet(std::vector<std::string>{path}, options);
}

Dataset read_parquet(const std::vector<std::string>& paths, const ReadParquetOptions& options) {
  auto files = find_files(kParquet, paths);
  return dataset_of_files(
      kParquet, files, options.hive_partitions, options.columns,
      [&](const auto& columns) { return std::make_shared<ParquetSource>(files, columns); });
}

}  // namespace manta::data
