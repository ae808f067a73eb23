#include <arrow/api.h>
#include <arrow/io/interfaces.h>
#include <unistd.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/descriptor_stream_internal.h"
#include "manta/data/npy_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/unknown_column_internal.h"
#include "manta/data/write_files_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/io/new_file_internal.h"

namespace manta {
namespace data {
namespace {

constexpr const char* kAsNumpy = "as .npy";
constexpr size_t kCopyBytes = 1 << 20;

/// The number of rows is written before the rows, but is known only after them: meanwhile the rows
/// are in a file without a name.
class NumpyWriter final : public FileWriter {
 public:
  NumpyWriter(std::shared_ptr<arrow::io::OutputStream> to,
              const std::shared_ptr<arrow::Schema>& schema, const std::string& column)
      : to_(std::move(to)),
        column_(column),
        temporary_(temporary_folder()),
        rows_file_(temporary_),
        kept_rows_(rows_file_.fd(), 0, temporary_) {
    auto type = schema->GetFieldByName(column)->type();
    element_ = type;
    while (element_->id() == arrow::Type::FIXED_SIZE_LIST) {
      const auto& list = static_cast<const arrow::FixedSizeListType&>(*element_);
      shape_.push_back(list.list_size());
      element_ = list.value_type();
    }
    bool takes = element_->id() == arrow::Type::BOOL || arrow::is_integer(element_->id()) ||
                 arrow::is_floating(element_->id());
    if (!takes) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("column '", column_, "' is of type ", type->ToString(),
                      ", of which no array can be made; it takes numbers, booleans and fixed-size "
                      "lists of them: cast the column"));
    }
  }

  void write(const std::shared_ptr<arrow::RecordBatch>& batch) override {
    auto values = batch->GetColumnByName(column_);
    rows_ += values->length();
    while (true) {
      if (values->null_count() > 0) {
        throw Error(ErrorKind::kInvalidArgument,
                    str("column '", column_,
                        "' has nulls, which arrays cannot have; use fill_na or drop_na before"));
      }
      if (values->type_id() != arrow::Type::FIXED_SIZE_LIST) break;
      const auto& list = static_cast<const arrow::FixedSizeListArray&>(*values);
      values =
          list.values()->Slice(list.value_offset(0), list.length() * list.list_type()->list_size());
    }
    if (values->type_id() == arrow::Type::BOOL) {
      const auto& flags = static_cast<const arrow::BooleanArray&>(*values);
      std::string bytes;
      for (int64_t i = 0; i < flags.length(); ++i) bytes += flags.Value(i) ? '\x01' : '\x00';
      keep(bytes.data(), bytes.size());
      return;
    }
    int64_t width = values->type()->byte_width();
    const auto& data = *values->data();
    if (values->length() == 0) return;
    keep(reinterpret_cast<const char*>(data.buffers[1]->data()) + data.offset * width,
         static_cast<size_t>(values->length() * width));
  }

  void finish() override {
    auto shape = shape_;
    shape.insert(shape.begin(), rows_);
    std::string header = npy_header(*element_, shape);
    check(to_->Write(header.data(), static_cast<int64_t>(header.size())), kAsNumpy);
    std::string bytes(kCopyBytes, '\0');
    for (int64_t at = 0; at < kept_rows_.at();) {
      auto some = std::min(static_cast<int64_t>(kCopyBytes), kept_rows_.at() - at);
      ssize_t got = ::pread(rows_file_.fd(), bytes.data(), static_cast<size_t>(some), at);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) throw_errno("reading rows of a temporary file");
      check(to_->Write(bytes.data(), got), kAsNumpy);
      at += got;
    }
  }

 private:
  void keep(const char* bytes, size_t size) {
    auto status = kept_rows_.Write(bytes, static_cast<int64_t>(size));
    if (status.ok()) return;
    throw Error(ErrorKind::kIo, str("writing rows to a temporary file in '", temporary_,
                                    "': ", status.message(), kMoreRoom));
  }

  const std::shared_ptr<arrow::io::OutputStream> to_;
  const std::string& column_;
  const std::string temporary_;
  const NewFile rows_file_;
  DescriptorStream kept_rows_;
  std::shared_ptr<arrow::DataType> element_;
  std::vector<int64_t> shape_;  // of a row
  int64_t rows_ = 0;
};

// The column that is meant, if the columns are known before the rows.
std::string only_column(const Dataset& dataset, const std::string& given) {
  auto names = dataset.columns();
  if (!given.empty()) {
    if (contains(names, given)) return given;
    throw Error(ErrorKind::kNotFound, str("write_numpy: ", no_such_column(given, names)));
  }
  if (names.size() == 1) return names[0];
  throw Error(ErrorKind::kInvalidArgument,
              str("write_numpy writes one column, and there are ", names.size(), " (", join(names),
                  "); name it in .column"));
}

}  // namespace
}  // namespace data

int64_t Dataset::write_numpy(const std::string& folder, const WriteNumpyOptions& options) const {
  std::string column = data::only_column(*this, options.column);
  data::FilesToWrite files{folder, "write_numpy", ".npy", options.rows_per_file, options.overwrite};
  return data::write_files(select_columns({column}), files, [&](auto to, const auto& schema) {
    return std::make_unique<data::NumpyWriter>(std::move(to), schema, column);
  });
}

}  // namespace manta
