#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/io/interfaces.h>

#include <charconv>
#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/cell_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/expression_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/write_files_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

using arrow::Type;
constexpr const char* kAsJson = "as JSON";

void append_quoted(std::string_view text, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 0x20) {
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  out += '"';
}

template <class T>
void append_number(T value, std::string& out) {
  char text[64];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  out.append(text, end);
  // A number without a decimal point would be read as an integer.
  if constexpr (std::is_floating_point_v<T>) {
    if (std::string_view(text, static_cast<size_t>(end - text)).find_first_of(".e") ==
        std::string_view::npos) {
      out += ".0";
    }
  }
}

/// The values of a column as JSON. `name`: for errors.
class JsonColumn {
 public:
  JsonColumn(std::string name, std::shared_ptr<arrow::Array> column, bool nan_as_null)
      : name_(std::move(name)), nan_as_null_(nan_as_null) {
    array_ = plain_column(std::move(column));
    auto id = array_->type_id();
    decimal_ = arrow::is_decimal(id);
    if (arrow::is_interval(id)) refuse();
    if (id == Type::HALF_FLOAT) {
      become(arrow::float32());
    } else if (id == Type::DURATION) {
      become(arrow::int64());
    } else if (decimal_ || arrow::is_temporal(id)) {
      become(arrow::utf8());
    }
    add_children();
  }

  void append(int64_t row, std::string& out) const {
    if (array_->IsNull(row)) {
      out += "null";
      return;
    }
    switch (array_->type_id()) {
      case Type::BOOL:
        out += value<arrow::BooleanArray>(row) ? "true" : "false";
        return;
      case Type::INT8:
        return append_number(int{value<arrow::Int8Array>(row)}, out);
      case Type::INT16:
        return append_number(value<arrow::Int16Array>(row), out);
      case Type::INT32:
        return append_number(value<arrow::Int32Array>(row), out);
      case Type::INT64:
        return append_number(value<arrow::Int64Array>(row), out);
      case Type::UINT8:
        return append_number(unsigned{value<arrow::UInt8Array>(row)}, out);
      case Type::UINT16:
        return append_number(value<arrow::UInt16Array>(row), out);
      case Type::UINT32:
        return append_number(value<arrow::UInt32Array>(row), out);
      case Type::UINT64:
        return append_number(value<arrow::UInt64Array>(row), out);
      case Type::FLOAT:
        return append_floating(value<arrow::FloatArray>(row), out);
      case Type::DOUBLE:
        return append_floating(value<arrow::DoubleArray>(row), out);
      case Type::STRING:
        return append_text<arrow::StringArray>(row, out);
      case Type::LARGE_STRING:
        return append_text<arrow::LargeStringArray>(row, out);
      case Type::BINARY:
        return append_text<arrow::BinaryArray>(row, out);
      case Type::LARGE_BINARY:
        return append_text<arrow::LargeBinaryArray>(row, out);
      case Type::STRING_VIEW:
        return append_text<arrow::StringViewArray>(row, out);
      case Type::BINARY_VIEW:
        return append_text<arrow::BinaryViewArray>(row, out);
      case Type::FIXED_SIZE_BINARY:
        return append_text<arrow::FixedSizeBinaryArray>(row, out);
      case Type::LIST:
        return append_list<arrow::ListArray>(row, out);
      case Type::MAP:
        return append_list<arrow::MapArray>(row, out);
      case Type::LARGE_LIST:
        return append_list<arrow::LargeListArray>(row, out);
      case Type::FIXED_SIZE_LIST:
        return append_list<arrow::FixedSizeListArray>(row, out);
      case Type::LIST_VIEW:
        return append_list<arrow::ListViewArray>(row, out);
      case Type::LARGE_LIST_VIEW:
        return append_list<arrow::LargeListViewArray>(row, out);
      default:
        return append_object(row, out);
    }
  }

  /// `{"a": 1, ...}` of a row of structs, or of a batch.
  void append_object(int64_t row, std::string& out) const {
    out += '{';
    for (size_t i = 0; i < children_.size(); ++i) {
      out += i == 0 ? "" : ",";
      out += names_[i];
      out += ':';
      children_[i].append(row, out);
    }
    out += '}';
  }

 private:
  template <class Array>
  decltype(std::declval<const Array&>().Value(0)) value(int64_t row) const {
    return static_cast<const Array&>(*array_).Value(row);
  }

  void become(const std::shared_ptr<arrow::DataType>& type) {
    array_ = check(arrow::compute::Cast(*array_, type), kAsJson);
  }

  void append_floating(auto value, std::string& out) const {
    if (std::isfinite(value)) return append_number(value, out);
    if (!nan_as_null_) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("column '", name_, "' has the value ", std::isnan(value) ? "NaN" : "infinity",
                      ", which JSON does not have; use fill_na before, or set .nan_as_null"));
    }
    out += "null";
  }

  template <class Array>
  void append_text(int64_t row, std::string& out) const {
    std::string_view text = static_cast<const Array&>(*array_).GetView(row);
    if (decimal_) {
      out += text;
      return;
    }
    if (!is_utf8(Json(text))) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("column '", name_, "' has the value ", printable(text),
                      ", which is not UTF-8; JSON holds nothing else"));
    }
    append_quoted(text, out);
  }

  template <class Array>
  void append_list(int64_t row, std::string& out) const {
    const auto& list = static_cast<const Array&>(*array_);
    int64_t begin = list.value_offset(row), end = begin + list.value_length(row);
    out += '[';
    for (int64_t i = begin; i < end; ++i) {
      if (i > begin) out += ',';
      children_[0].append(i, out);
    }
    out += ']';
  }

  void add_child(const std::string& name, std::shared_ptr<arrow::Array> values) {
    children_.emplace_back(name, std::move(values), nan_as_null_);
  }

  void add_field(const std::string& field, std::shared_ptr<arrow::Array> values) {
    if (!is_utf8(Json(field))) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("the name '", printable(field), "' is not UTF-8; rename the column"));
    }
    append_quoted(field, names_.emplace_back());
    add_child(name_.empty() ? field : str(name_, ".", field), std::move(values));
  }

  void add_children() {
    switch (array_->type_id()) {
      case Type::LIST:
        return add_child(name_, static_cast<const arrow::ListArray&>(*array_).values());
      case Type::MAP:
        return add_child(name_, static_cast<const arrow::MapArray&>(*array_).values());
      case Type::LARGE_LIST:
        return add_child(name_, static_cast<const arrow::LargeListArray&>(*array_).values());
      case Type::FIXED_SIZE_LIST:
        return add_child(name_, static_cast<const arrow::FixedSizeListArray&>(*array_).values());
      case Type::LIST_VIEW:
        return add_child(name_, static_cast<const arrow::ListViewArray&>(*array_).values());
      case Type::LARGE_LIST_VIEW:
        return add_child(name_, static_cast<const arrow::LargeListViewArray&>(*array_).values());
      case Type::STRUCT: {
        const auto& rows = static_cast<const arrow::StructArray&>(*array_);
        for (int i = 0; i < rows.num_fields(); ++i) {
          add_field(rows.struct_type()->field(i)->name(), rows.field(i));
        }
        return;
      }
      case Type::DENSE_UNION:
      case Type::SPARSE_UNION:
        refuse();
      default:
        return;
    }
  }

  [[noreturn]] void refuse() const {
    throw Error(ErrorKind::kInvalidArgument,
                str("column '", name_, "' is of type ", array_->type()->ToString(),
                    ", which cannot be written as JSON; leave it out, or cast it"));
  }

  const std::string name_;
  const bool nan_as_null_;
  std::shared_ptr<arrow::Array> array_;
  bool decimal_ = false;                 // as numbers in quotes
  std::vector<std::string> names_ = {};  // of a struct, in quotes
  std::vector<JsonColumn> children_ = {};
};

class JsonWriter final : public FileWriter {
 public:
  JsonWriter(std::shared_ptr<arrow::io::OutputStream> to,
             const std::shared_ptr<arrow::Schema>& schema, const WriteJsonOptions& options)
      : to_(std::move(to)), options_(options) {
    lines(*check(arrow::RecordBatch::MakeEmpty(schema), kAsJson));  // refuses unsupported types
  }
  void write(const std::shared_ptr<arrow::RecordBatch>& batch) override {
    auto text = lines(*batch);
    check(to_->Write(text.data(), static_cast<int64_t>(text.size())), kAsJson);
  }
  void finish() override {}

 private:
  std::string lines(const arrow::RecordBatch& batch) const {
    auto rows = std::make_shared<arrow::StructArray>(arrow::struct_(batch.schema()->fields()),
                                                     batch.num_rows(), batch.columns());
    JsonColumn all("", rows, options_.nan_as_null);
    std::string text;
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      all.append_object(row, text);
      text += '\n';
    }
    return text;
  }

  const std::shared_ptr<arrow::io::OutputStream> to_;
  const WriteJsonOptions& options_;
};

}  // namespace
}  // namespace data

int64_t Dataset::write_json(const std::string& folder, const WriteJsonOptions& options) const {
  data::FilesToWrite files{folder, "write_json", ".jsonl .json .ndjson", options.rows_per_file,
                           options.overwrite};
  return data::write_files(*this, files, [&](auto to, const auto& schema) {
    return std::make_unique<data::JsonWriter>(std::move(to), schema, options);
  });
}

}  // namespace manta
