#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/extension_type.h>
#include <arrow/util/bit_util.h>

#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/nested_rows_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

namespace cp = arrow::compute;
using arrow::Array;
using arrow::Type;
using ArrayPtr = std::shared_ptr<arrow::Array>;
using TypePtr = std::shared_ptr<arrow::DataType>;

constexpr const char* kRowBytes = "nested values as bytes";

bool is_one_of_lists(Type::type id) {
  return id == Type::LIST || id == Type::LARGE_LIST || id == Type::FIXED_SIZE_LIST ||
         id == Type::MAP;
}

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Writes a byte that says whether there is a value, then the value.
class RowWriter {
 public:
  void write(const Array& column, int64_t row, std::string& out) {
    Type::type id = column.type_id();
    if (id == Type::EXTENSION) {
      return write(*static_cast<const arrow::ExtensionArray&>(column).storage(), row, out);
    }
    if (id == Type::RUN_END_ENCODED) {
      auto& encoded = static_cast<const arrow::RunEndEncodedArray&>(column);
      return write(*encoded.values(), physical(encoded, row), out);
    }
    if (id == Type::DICTIONARY && column.IsValid(row)) {
      auto& encoded = static_cast<const arrow::DictionaryArray&>(column);
      return write(*encoded.dictionary(), encoded.GetValueIndex(row), out);
    }
    bool valid = id != Type::NA && column.IsValid(row);
    out.push_back(valid ? 1 : 0);
    if (valid) write_value(column, row, out);
  }

 private:
  static int64_t physical(const arrow::RunEndEncodedArray& encoded, int64_t row) {
    auto ends = encoded.run_ends();
    int64_t wanted = encoded.offset() + row;
    int64_t low = 0, high = ends->length() - 1;
    while (low < high) {
      int64_t middle = (low + high) / 2;
      if (end_of(*ends, middle) > wanted) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
  static int64_t end_of(const Array& ends, int64_t i) {
    switch (ends.type_id()) {
      case Type::INT16:
        return static_cast<const arrow::Int16Array&>(ends).Value(i);
      case Type::INT32:
        return static_cast<const arrow::Int32Array&>(ends).Value(i);
      default:
        return static_cast<const arrow::Int64Array&>(ends).Value(i);
    }
  }

  void write_value(const Array& column, int64_t row, std::string& out) {
    switch (column.type_id()) {
      case Type::BOOL:
        out.push_back(static_cast<const arrow::BooleanArray&>(column).Value(row) ? 1 : 0);
        return;
      case Type::STRING:
      case Type::BINARY:
        return write_bytes(static_cast<const arrow::BinaryArray&>(column).GetView(row), out);
      case Type::LARGE_STRING:
      case Type::LARGE_BINARY:
        return write_bytes(static_cast<const arrow::LargeBinaryArray&>(column).GetView(row), out);
      case Type::STRING_VIEW:
      case Type::BINARY_VIEW:
        return write_bytes(static_cast<const arrow::BinaryViewArray&>(column).GetView(row), out);
      case Type::LIST:
      case Type::MAP: {
        auto& list = static_cast<const arrow::ListArray&>(column);
        return write_items(*list.values(), list.value_offset(row), list.value_length(row), out);
      }
      case Type::LARGE_LIST: {
        auto& list = static_cast<const arrow::LargeListArray&>(column);
        return write_items(*list.values(), list.value_offset(row), list.value_length(row), out);
      }
      case Type::FIXED_SIZE_LIST: {
        auto& list = static_cast<const arrow::FixedSizeListArray&>(column);
        return write_items(*list.values(), list.value_offset(row), list.value_length(row), out);
      }
      case Type::STRUCT: {
        auto& fields = static_cast<const arrow::StructArray&>(column);
        for (int i = 0; i < fields.num_fields(); ++i) write(*fields.field(i), row, out);
        return;
      }
      default: {
        auto width = static_cast<size_t>(column.type()->byte_width());
        auto* values = column.data()->buffers[1]->data();
        out.append(reinterpret_cast<const char*>(values) +
                       static_cast<size_t>(column.offset() + row) * width,
                   width);
      }
    }
  }
  static void write_bytes(std::string_view bytes, std::string& out) {
    put(out, static_cast<uint64_t>(bytes.size()));
    out.append(bytes);
  }
  // Writes numbers without nulls, such as embeddings and images, in one piece.
  void write_items(const Array& items, int64_t first, int64_t count, std::string& out) {
    put(out, static_cast<uint64_t>(count));
    bool plain = arrow::is_primitive(items.type_id()) && items.type_id() != Type::BOOL &&
                 items.null_count() == 0;
    out.push_back(plain ? 1 : 0);
    if (plain) {
      auto width = static_cast<size_t>(items.type()->byte_width());
      if (count == 0) return;
      out.append(reinterpret_cast<const char*>(items.data()->buffers[1]->data()) +
                     static_cast<size_t>(items.offset() + first) * width,
                 static_cast<size_t>(count) * width);
      return;
    }
    for (int64_t i = 0; i < count; ++i) write(items, first + i, out);
  }
};

// The bytes never left this process, so they are what RowWriter wrote.
class RowReader {
 public:
  explicit RowReader(std::string_view bytes) : at_(bytes.data()) {}

  void read(arrow::ArrayBuilder& builder, const arrow::DataType& type) {
    if (*at_++ == 0) return check(builder.AppendNull(), kRowBytes);
    switch (type.id()) {
      case Type::BOOL:
        return check(static_cast<arrow::BooleanBuilder&>(builder).Append(*at_++ != 0), kRowBytes);
      case Type::STRING:
      case Type::BINARY:
        return check(static_cast<arrow::BinaryBuilder&>(builder).Append(bytes()), kRowBytes);
      case Type::LARGE_STRING:
      case Type::LARGE_BINARY:
        return check(static_cast<arrow::LargeBinaryBuilder&>(builder).Append(bytes()), kRowBytes);
      case Type::LIST: {
        auto& list = static_cast<arrow::ListBuilder&>(builder);
        check(list.Append(), kRowBytes);
        return items(*list.value_builder(), *type.field(0)->type());
      }
      case Type::LARGE_LIST: {
        auto& list = static_cast<arrow::LargeListBuilder&>(builder);
        check(list.Append(), kRowBytes);
        return items(*list.value_builder(), *type.field(0)->type());
      }
      case Type::FIXED_SIZE_LIST: {
        auto& list = static_cast<arrow::FixedSizeListBuilder&>(builder);
        check(list.Append(), kRowBytes);
        return items(*list.value_builder(), *type.field(0)->type());
      }
      case Type::MAP: {
        auto& map = static_cast<arrow::MapBuilder&>(builder);
        auto& types = static_cast<const arrow::MapType&>(type);
        check(map.Append(), kRowBytes);
        auto count = take<uint64_t>();
        ++at_;
        for (uint64_t i = 0; i < count; ++i) {
          ++at_;  // an entry is never null
          read(*map.key_builder(), *types.key_type());
          read(*map.item_builder(), *types.item_type());
        }
        return;
      }
      case Type::STRUCT: {
        auto& fields = static_cast<arrow::StructBuilder&>(builder);
        check(fields.Append(), kRowBytes);
        for (int i = 0; i < type.num_fields(); ++i) {
          read(*fields.field_builder(i), *type.field(i)->type());
        }
        return;
      }
      default:
        return fixed(builder, type, 1);
    }
  }

 private:
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, at_, sizeof(value));
    at_ += sizeof(value);
    return value;
  }
  std::string_view bytes() {
    auto size = take<uint64_t>();
    std::string_view view(at_, size);
    at_ += size;
    return view;
  }
  void items(arrow::ArrayBuilder& builder, const arrow::DataType& type) {
    auto count = take<uint64_t>();
    bool plain = *at_++ != 0;
    if (plain) return fixed(builder, type, static_cast<int64_t>(count));
    for (uint64_t i = 0; i < count; ++i) read(builder, type);
  }
  // Goes through an array over these bytes, which works for all types of a fixed width.
  void fixed(arrow::ArrayBuilder& builder, const arrow::DataType& type, int64_t count) {
    int64_t size = count * type.byte_width();
    auto aligned = check(arrow::AllocateBuffer(size), kRowBytes);
    std::memcpy(aligned->mutable_data(), at_, static_cast<size_t>(size));
    at_ += size;
    arrow::ArrayData data(type.GetSharedPtr(), count, {nullptr, std::move(aligned)}, 0);
    check(builder.AppendArraySlice(arrow::ArraySpan(data), 0, count), kRowBytes);
  }

  const char* at_;
};

arrow::FieldVector written_out_fields(const arrow::DataType& type) {
  arrow::FieldVector fields;
  for (const auto& field : type.fields()) {
    auto written = written_out_type(field->type());
    if (!written) return {};
    fields.push_back(field->WithType(written));
  }
  return fields;
}

ArrayPtr to_dictionary(const ArrayPtr& values, const arrow::DictionaryType& type) {
  start_compute();
  auto encoded = check(cp::DictionaryEncode(values), kRowBytes).make_array();
  auto& dictionary = static_cast<const arrow::DictionaryArray&>(*encoded);
  auto indices = cp::Cast(*dictionary.indices(), type.index_type());
  if (!indices.ok()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("rows of several dictionaries have ", dictionary.dictionary()->length(),
                    " values together, more than ", type.ToString(),
                    " can number; cast the column to ", type.value_type()->ToString()));
  }
  return std::make_shared<arrow::DictionaryArray>(
      type.GetSharedPtr(), *indices, encode_again(dictionary.dictionary(), type.value_type()));
}

template <class Builder>
ArrayPtr to_views(const arrow::LargeBinaryArray& column) {
  Builder builder;
  for (int64_t i = 0; i < column.length(); ++i) {
    check(column.IsNull(i) ? builder.AppendNull() : builder.Append(column.GetView(i)), kRowBytes);
  }
  return check(builder.Finish(), kRowBytes);
}

}  // namespace

ArrayPtr to_row_bytes(const Array& column) {
  arrow::LargeBinaryBuilder builder;
  RowWriter writer;
  std::string bytes;
  for (int64_t i = 0; i < column.length(); ++i) {
    if (column.IsNull(i)) {
      check(builder.AppendNull(), kRowBytes);
      continue;
    }
    bytes.clear();
    writer.write(column, i, bytes);
    check(builder.Append(bytes), kRowBytes);
  }
  return check(builder.Finish(), kRowBytes);
}

ArrayPtr from_row_bytes(const Array& bytes, const TypePtr& type) {
  auto& rows = static_cast<const arrow::LargeBinaryArray&>(bytes);
  auto builder = check(arrow::MakeBuilder(type), kRowBytes);
  for (int64_t i = 0; i < rows.length(); ++i) {
    if (rows.IsNull(i)) {
      check(builder->AppendNull(), kRowBytes);
    } else {
      RowReader(rows.GetView(i)).read(*builder, *type);
    }
  }
  return check(builder->Finish(), kRowBytes);
}

TypePtr written_out_type(const TypePtr& type) {
  switch (type->id()) {
    case Type::DICTIONARY:
      return written_out_type(static_cast<const arrow::DictionaryType&>(*type).value_type());
    case Type::RUN_END_ENCODED:
      return written_out_type(static_cast<const arrow::RunEndEncodedType&>(*type).value_type());
    case Type::EXTENSION:
      return written_out_type(static_cast<const arrow::ExtensionType&>(*type).storage_type());
    case Type::STRING_VIEW:
      return arrow::large_utf8();
    case Type::BINARY_VIEW:
      return arrow::large_binary();
    case Type::SPARSE_UNION:
    case Type::DENSE_UNION:
    case Type::LIST_VIEW:
    case Type::LARGE_LIST_VIEW:
      return nullptr;
    default:
      break;
  }
  if (!arrow::is_nested(type->id())) return type;
  auto fields = written_out_fields(*type);
  if (fields.size() != type->fields().size()) return nullptr;
  switch (type->id()) {
    case Type::LIST:
      return arrow::list(fields[0]);
    case Type::LARGE_LIST:
      return arrow::large_list(fields[0]);
    case Type::FIXED_SIZE_LIST:
      return arrow::fixed_size_list(
          fields[0], static_cast<const arrow::FixedSizeListType&>(*type).list_size());
    case Type::MAP:
      return std::make_shared<arrow::MapType>(
          fields[0], static_cast<const arrow::MapType&>(*type).keys_sorted());
    case Type::STRUCT:
      return arrow::struct_(fields);
    default:
      return nullptr;
  }
}

ArrayPtr encode_again(const ArrayPtr& column, const TypePtr& type) {
  switch (type->id()) {
    case Type::DICTIONARY: {
      auto& dictionary = static_cast<const arrow::DictionaryType&>(*type);
      return to_dictionary(column, dictionary);
    }
    case Type::RUN_END_ENCODED: {
      auto& encoded = static_cast<const arrow::RunEndEncodedType&>(*type);
      start_compute();
      auto values = encode_again(column, encoded.value_type());
      return check(cp::RunEndEncode(values, cp::RunEndEncodeOptions(encoded.run_end_type())),
                   kRowBytes)
          .make_array();
    }
    case Type::EXTENSION: {
      auto storage =
          encode_again(column, static_cast<const arrow::ExtensionType&>(*type).storage_type());
      return arrow::ExtensionType::WrapArray(type, storage);
    }
    case Type::STRING_VIEW:
      return to_views<arrow::StringViewBuilder>(
          static_cast<const arrow::LargeBinaryArray&>(*column));
    case Type::BINARY_VIEW:
      return to_views<arrow::BinaryViewBuilder>(
          static_cast<const arrow::LargeBinaryArray&>(*column));
    default:
      break;
  }
  if (!is_one_of_lists(type->id()) && type->id() != Type::STRUCT) return column;
  auto data = column->data()->Copy();
  data->type = type;
  for (size_t i = 0; i < data->child_data.size(); ++i) {
    data->child_data[i] = encode_again(arrow::MakeArray(data->child_data[i]),
                                       type->field(static_cast<int>(i))->type())
                              ->data();
  }
  return arrow::MakeArray(data);
}

}  // namespace manta::data
