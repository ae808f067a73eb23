#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/extension_type.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/gather_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

namespace cp = arrow::compute;
using arrow::Type;
using TypePtr = std::shared_ptr<arrow::DataType>;
using DataPtr = std::shared_ptr<arrow::ArrayData>;

std::shared_ptr<arrow::Array> write_out(const arrow::DictionaryArray& column) {
  return take_rows(*column.dictionary(), *column.indices());
}

// Writes texts one after the other. A view may point into buffers of other rows, which Arrow would
// send whole with every block. It makes large types: the type must not depend on the length of this
// block's texts.
template <class Builder>
DataPtr write_out_views(const arrow::BinaryViewArray& column) {
  Builder builder;
  check(builder.Reserve(column.length()), "writing out texts");
  for (int64_t i = 0; i < column.length(); ++i) {
    check(column.IsNull(i) ? builder.AppendNull() : builder.Append(column.GetView(i)),
          "writing out texts");
  }
  return check(builder.Finish(), "writing out texts")->data();
}

bool is_rewritten(const arrow::DataType& type) {
  if (type.id() == Type::DICTIONARY || arrow::is_binary_view_like(type.id())) return true;
  if (type.id() == Type::EXTENSION) {
    return is_rewritten(*static_cast<const arrow::ExtensionType&>(type).storage_type());
  }
  return std::any_of(type.fields().begin(), type.fields().end(),
                     [](const auto& field) { return is_rewritten(*field->type()); });
}

// The same type with other child types.
TypePtr with_fields(const arrow::DataType& type, const arrow::FieldVector& fields) {
  switch (type.id()) {
    case Type::LIST:
      return arrow::list(fields[0]);
    case Type::LARGE_LIST:
      return arrow::large_list(fields[0]);
    case Type::LIST_VIEW:
      return arrow::list_view(fields[0]);
    case Type::LARGE_LIST_VIEW:
      return arrow::large_list_view(fields[0]);
    case Type::FIXED_SIZE_LIST:
      return arrow::fixed_size_list(fields[0],
                                    static_cast<const arrow::FixedSizeListType&>(type).list_size());
    case Type::MAP:
      return std::make_shared<arrow::MapType>(
          fields[0], static_cast<const arrow::MapType&>(type).keys_sorted());
    case Type::STRUCT:
      return arrow::struct_(fields);
    case Type::SPARSE_UNION:
      return arrow::sparse_union(fields, static_cast<const arrow::UnionType&>(type).type_codes());
    case Type::DENSE_UNION:
      return arrow::dense_union(fields, static_cast<const arrow::UnionType&>(type).type_codes());
    case Type::RUN_END_ENCODED:
      return arrow::run_end_encoded(fields[0]->type(), fields[1]->type());
    default:
      throw Error(ErrorKind::kInvalidArgument,
                  "a dictionary or a view inside of " + type.ToString());
  }
}

// Decodes whole children, so that offsets into them still point to the same values.
DataPtr decoded(const DataPtr& data) {
  if (!is_rewritten(*data->type)) return data;
  if (data->type->id() == Type::EXTENSION) {
    auto storage = data->Copy();
    storage->type = static_cast<const arrow::ExtensionType&>(*data->type).storage_type();
    return decoded(storage);
  }
  if (data->type->id() == Type::DICTIONARY) {
    return decoded(write_out(arrow::DictionaryArray(data))->data());
  }
  if (data->type->id() == Type::STRING_VIEW) {
    return write_out_views<arrow::LargeStringBuilder>(arrow::StringViewArray(data));
  }
  if (data->type->id() == Type::BINARY_VIEW) {
    return write_out_views<arrow::LargeBinaryBuilder>(arrow::BinaryViewArray(data));
  }
  auto result = data->Copy();
  arrow::FieldVector fields = data->type->fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    result->child_data[i] = decoded(data->child_data[i]);
    fields[i] = fields[i]->WithType(result->child_data[i]->type);
  }
  result->type = with_fields(*data->type, fields);
  return result;
}

TypePtr with_field_types(const arrow::DataType& type, bool of_map);

arrow::FieldVector nullable_fields(const arrow::DataType& type, bool of_map) {
  arrow::FieldVector fields = type.fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    bool is_map = type.id() == Type::MAP;  // whose entries, and their keys, are never null
    auto inner =
        is_map ? with_field_types(*fields[i]->type(), true) : with_nulls_allowed(fields[i]->type());
    fields[i] = fields[i]->WithType(inner)->WithNullable(!is_map && !(of_map && i == 0));
  }
  return fields;
}

TypePtr with_field_types(const arrow::DataType& type, bool of_map) {
  return with_fields(type, nullable_fields(type, of_map));
}

DataPtr as_type(const DataPtr& data, const TypePtr& type) {
  if (data->type->Equals(*type)) return data;
  auto result = data->Copy();
  result->type = type;
  for (size_t i = 0; i < result->child_data.size(); ++i) {
    result->child_data[i] = as_type(data->child_data[i], type->field(static_cast<int>(i))->type());
  }
  return result;
}

}  // namespace

TypePtr with_nulls_allowed(const TypePtr& type) {
  bool has_fields = arrow::is_nested(type->id()) && type->id() != Type::RUN_END_ENCODED;
  return has_fields && !type->fields().empty() ? with_field_types(*type, false) : type;
}

std::shared_ptr<arrow::RecordBatch> with_nulls_allowed(const arrow::RecordBatch& batch) {
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (int i = 0; i < batch.num_columns(); ++i) {
    auto type = with_nulls_allowed(batch.column(i)->type());
    fields.push_back(arrow::field(batch.column_name(i), type));
    columns.push_back(batch.column(i)->type()->Equals(*type)
                          ? batch.column(i)
                          : arrow::MakeArray(as_type(batch.column_data(i), type)));
  }
  return arrow::RecordBatch::Make(arrow::schema(fields), batch.num_rows(), std::move(columns));
}

std::shared_ptr<arrow::Array> plain_column(std::shared_ptr<arrow::Array> column) {
  while (true) {
    if (column->type_id() == Type::DICTIONARY) {
      column = write_out(static_cast<const arrow::DictionaryArray&>(*column));
    } else if (column->type_id() == Type::RUN_END_ENCODED) {
      start_compute();
      column = check(cp::RunEndDecode(column), "decoding run ends").make_array();
    } else if (column->type_id() == Type::EXTENSION) {
      column = static_cast<const arrow::ExtensionArray&>(*column).storage();
    } else {
      return column;
    }
  }
}

std::shared_ptr<arrow::RecordBatch> without_shared_values(
    const std::shared_ptr<arrow::RecordBatch>& batch) {
  const auto& schema = *batch->schema();
  arrow::FieldVector fields = schema.fields();
  auto columns = batch->columns();
  bool changed = false;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!is_rewritten(*columns[i]->type())) continue;
    changed = true;
    try {
      columns[i] = arrow::MakeArray(decoded(columns[i]->data()));
    } catch (const Error& error) {
      throw Error(error.kind(),
                  str("column '", fields[i]->name(), "' of type ", columns[i]->type()->ToString(),
                      " cannot be sent to workers (", error.what(),
                      "); drop it, or change its type in a map_batches"));
    }
    fields[i] = fields[i]->WithType(columns[i]->type());
  }
  if (!changed) return batch;
  return arrow::RecordBatch::Make(arrow::schema(fields, schema.metadata()), batch->num_rows(),
                                  std::move(columns));
}

}  // namespace manta::data
