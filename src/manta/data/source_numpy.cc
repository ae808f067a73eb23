#include <arrow/api.h>
#include <arrow/io/interfaces.h>

#include <algorithm>
#include <mutex>

#include "manta/base/error_internal.h"
#include "manta/data/npy_internal.h"
#include "manta/data/part_files_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/source_internal.h"
#include "manta/data/sources.h"
#include "manta/data/whole_files_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr FileKind kNumpy = {"read_numpy", ".npy"};
constexpr const char* kDataColumn = "data";
constexpr int64_t kNumpyFragmentBytes = 8 << 20;

// Nested lists of `row_type`, `rows` of them, over one array of elements.
std::shared_ptr<arrow::Array> in_lists(const std::shared_ptr<arrow::DataType>& row_type,
                                       int64_t rows, std::shared_ptr<arrow::Array> elements) {
  if (row_type->id() != arrow::Type::FIXED_SIZE_LIST) return elements;
  const auto& list = static_cast<const arrow::FixedSizeListType&>(*row_type);
  auto values = in_lists(list.value_type(), rows * list.list_size(), std::move(elements));
  return std::make_shared<arrow::FixedSizeListArray>(row_type, rows, std::move(values));
}

/// The rows of arrays in .npy files, one file after the other; a fragment is some rows of a file.
class NumpySource final : public FileSource {
 public:
  explicit NumpySource(WholeFiles files) : files_(std::move(files)) { header(0); }
  explicit NumpySource(const JsonFields& fields) : files_(kNumpy, fields) {
    if (fields.array("headers").size() != files_.count())
      fields.fail("headers", "one for each file");
    for (size_t i = 0; i < files_.count(); ++i) {
      headers_.push_back(npy_from_json(fields.element("headers", i), files_[i].size));
      require_same_rows(i, headers_[i]);
    }
  }

  std::string_view name() const override { return "numpy"; }
  std::string to_string() override {
    return str("read_numpy: ", files_.count(), " files, ", schema()->field(0)->type()->ToString(),
               "; first file '", files_[0].path, "'");
  }
  Json to_json() override {
    header(files_.count() - 1);
    Json headers = Json::array();
    for (const auto& header : headers_) headers.push_back(npy_to_json(header));
    Json json = {{"headers", headers}};
    files_.add_to(json);
    return json;
  }
  std::string why_not_stored() const override { return files_.why_not_stored(); }
  std::shared_ptr<arrow::Schema> schema() override {
    return arrow::schema({arrow::field(kDataColumn, header(0).row_type())});
  }
  const std::vector<Fragment>& fragments() override;
  bool rules_out(size_t, const std::vector<Bound>&) override { return false; }
  std::string describe(size_t fragment) const override {
    const Rows& rows = rows_[fragment];
    return str("rows ", rows.first, " to ", rows.first + rows.count, " of '",
               files_[rows.file].path, "'");
  }
  std::vector<std::string> files() const override { return files_.paths(); }
  size_t file_of(size_t fragment) const override { return rows_[fragment].file; }
  void read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
            const TakeBatch& take) override;

 private:
  struct Rows {
    size_t file = 0;
    int64_t first = 0;
    int64_t count = 0;
  };
  const NpyHeader& header(size_t file);
  NpyHeader read_header(size_t file) const;
  void require_same_rows(size_t file, const NpyHeader& header) const;
  std::shared_ptr<arrow::Array> read_rows(const Rows& rows);

  const WholeFiles files_;
  std::mutex mutex_;                // of everything below
  std::vector<NpyHeader> headers_;  // of the files that were opened so far, in order
  std::vector<Rows> rows_;
  std::vector<Fragment> fragments_;
  bool all_known_ = false;  // all headers are known, and never change any more
};

NpyHeader NumpySource::read_header(size_t file) const {
  auto beginning = files_.read(file, 0, std::min(files_[file].size, kMostNpyHeaderBytes));
  NpyHeader header;
  try {
    header = parse_npy_header(std::string_view(*beginning), files_[file].size);
  } catch (const Error& error) {
    throw Error(error.kind(), str("read_numpy: '", files_[file].path, "': ", error.what()));
  }
  require_same_rows(file, header);
  return header;
}

void NumpySource::require_same_rows(size_t file, const NpyHeader& header) const {
  if (file == 0 || header.row_type()->Equals(*headers_[0].row_type())) return;
  throw Error(ErrorKind::kInvalidArgument,
              str("read_numpy: the rows of '", files_[file].path, "' are ",
                  header.row_type()->ToString(), ", not ", headers_[0].row_type()->ToString(),
                  " as in '", files_[0].path, "'; convert one of them, or leave it out"));
}

const NpyHeader& NumpySource::header(size_t file) {
  std::lock_guard lock(mutex_);
  if (headers_.empty()) headers_.reserve(files_.count());
  while (headers_.size() <= file) headers_.push_back(read_header(headers_.size()));
  return headers_[file];
}

const std::vector<Fragment>& NumpySource::fragments() {
  header(files_.count() - 1);
  std::lock_guard lock(mutex_);
  if (all_known_) return fragments_;
  for (size_t file = 0; file < files_.count(); ++file) {
    const NpyHeader& header = headers_[file];
    int64_t most = std::max<int64_t>(
        kNumpyFragmentBytes / std::max<int64_t>(header.row_bytes(), header.element_bytes), 1);
    for (int64_t first = 0; first < header.rows(); first += most) {
      int64_t count = std::min(most, header.rows() - first);
      rows_.push_back({file, first, count});
      fragments_.push_back({count, count});
    }
  }
  all_known_ = true;
  return fragments_;
}

std::shared_ptr<arrow::Array> NumpySource::read_rows(const Rows& rows) {
  const NpyHeader& header = this->header(rows.file);
  auto bytes = files_.read(rows.file, header.data_offset + rows.first * header.row_bytes(),
                           rows.count * header.row_bytes());
  int64_t count = rows.count * header.row_elements();
  std::shared_ptr<arrow::Array> elements;
  if (header.type->id() == arrow::Type::BOOL) {
    arrow::BooleanBuilder builder;
    check(builder.AppendValues(bytes->data(), count), "read_numpy");
    elements = check(builder.Finish(), "read_numpy");
  } else {
    elements = arrow::MakeArray(arrow::ArrayData::Make(header.type, count, {nullptr, bytes}, 0));
  }
  return in_lists(header.row_type(), rows.count, std::move(elements));
}

void NumpySource::read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
                       const TakeBatch& take) {
  const Rows& rows = rows_[fragment];
  arrow::ArrayVector arrays;
  if (!columns.empty()) arrays.push_back(read_rows(rows));
  auto batch = arrow::RecordBatch::Make(columns.empty() ? arrow::schema({}) : schema(), rows.count,
                                        std::move(arrays));
  for (int64_t row = 0; row < rows.count; row += piece_rows) take(batch->Slice(row, piece_rows));
}

}  // namespace

std::shared_ptr<Source> read_numpy_source(const JsonFields& fields) {
  return std::make_shared<NumpySource>(fields);
}

Dataset read_numpy(const std::string& path) { return read_numpy(std::vector<std::string>{path}); }

Dataset read_numpy(const std::vector<std::string>& paths) {
  return dataset_of(std::make_shared<NumpySource>(WholeFiles(kNumpy, find_files(kNumpy, paths))));
}

}  // namespace manta::data
