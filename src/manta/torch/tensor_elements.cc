#include <arrow/array.h>
#include <arrow/extension/fixed_shape_tensor.h>
#include <arrow/extension_type.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "manta/base/error_internal.h"
#include "manta/torch/tensor_elements_internal.h"

namespace manta::detail {
namespace {

constexpr int64_t kUnknownLength = -1;  // no row has shown it yet

int64_t product(const std::vector<int64_t>& shape, size_t dimensions) {
  auto end = shape.begin() + static_cast<std::ptrdiff_t>(dimensions);
  return std::accumulate(shape.begin(), end, int64_t{1}, std::multiplies<>());
}

// Replaces extension types by their storage types.
std::shared_ptr<arrow::Array> stored(std::shared_ptr<arrow::Array> array) {
  while (array->type_id() == arrow::Type::EXTENSION) {
    array = static_cast<const arrow::ExtensionArray&>(*array).storage();
  }
  return array;
}

const arrow::DataType& stored(const arrow::DataType& type) {
  const arrow::DataType* inner = &type;
  while (inner->id() == arrow::Type::EXTENSION) {
    inner = static_cast<const arrow::ExtensionType&>(*inner).storage_type().get();
  }
  return *inner;
}

// Null if it is another type.
const arrow::extension::FixedShapeTensorType* tensor_type(const arrow::DataType& type) {
  return dynamic_cast<const arrow::extension::FixedShapeTensorType*>(&type);
}

// The bytes of a buffer as an array of numbers.
std::shared_ptr<arrow::Array> as_bytes(const std::shared_ptr<arrow::Buffer>& bytes) {
  return std::make_shared<arrow::UInt8Array>(bytes ? bytes->size() : 0, bytes);
}

// Calls `function` with the array as one of lists or of binary values, whose lengths it has.
template <class F>
bool with_lengths(const arrow::Array& array, const F& function) {
  switch (array.type_id()) {
    case arrow::Type::LIST:
      return function(static_cast<const arrow::ListArray&>(array)), true;
    case arrow::Type::LARGE_LIST:
      return function(static_cast<const arrow::LargeListArray&>(array)), true;
    case arrow::Type::BINARY:
      return function(static_cast<const arrow::BinaryArray&>(array)), true;
    case arrow::Type::LARGE_BINARY:
      return function(static_cast<const arrow::LargeBinaryArray&>(array)), true;
    default:
      return false;
  }
}

template <class ArrayOfLists>
std::shared_ptr<arrow::Array> contents(const ArrayOfLists& lists) {
  if constexpr (requires { lists.values(); }) {
    return lists.values();
  } else {
    return as_bytes(lists.value_data());
  }
}

/// Goes down into the lists of one part after the other, and learns their lengths.
class Descent {
 public:
  explicit Descent(TensorColumn& column) : column_(column) {}

  void add(const ColumnRows& part) {
    column_.parts.push_back({part.array, part.offset, part.rows});
    descend(column_.parts.back().values, column_.parts.back().offset, part.rows, 0);
    column_.rows += part.rows;
  }

  // In a column without rows the lengths are unknown; its tensor has no numbers anyway.
  void finish() {
    std::replace(column_.shape.begin(), column_.shape.end(), kUnknownLength, int64_t{0});
    for (auto tensors = shapes_.rbegin(); tensors != shapes_.rend(); ++tensors) {
      auto at = column_.shape.begin() + static_cast<std::ptrdiff_t>(tensors->first);
      at = column_.shape.erase(at);
      column_.shape.insert(at, tensors->second.begin(), tensors->second.end());
    }
  }

 private:
  // Replaces `count` lists of `array`, from `offset` on, by their content.
  void descend(std::shared_ptr<arrow::Array>& array, int64_t& offset, int64_t count, size_t depth) {
    while (array->type_id() == arrow::Type::EXTENSION) {
      if (auto* tensors = tensor_type(*array->type())) shapes_[depth] = tensors->shape();
      array = static_cast<const arrow::ExtensionArray&>(*array).storage();
    }
    auto list = array;  // keeps the list alive while `array` is replaced
    bool fixed = list->type_id() == arrow::Type::FIXED_SIZE_LIST ||
                 list->type_id() == arrow::Type::FIXED_SIZE_BINARY;
    if (!fixed && !with_lengths(*list, [](const auto&) {})) return;
    if (column_.shape.size() == depth) column_.shape.push_back(kUnknownLength);
    for (int64_t i = 0; list->null_count() > 0 && i < count; ++i) {
      if (list->IsNull(offset + i)) refuse_null_list(column_.name, row_of(i, depth));
    }
    if (fixed) {
      bool binary = list->type_id() == arrow::Type::FIXED_SIZE_BINARY;
      int64_t length =
          binary ? static_cast<const arrow::FixedSizeBinaryType&>(*list->type()).byte_width()
                 : static_cast<const arrow::FixedSizeListType&>(*list->type()).list_size();
      column_.shape[depth] = length;
      array = binary ? as_bytes(list->data()->buffers[1])
                     : static_cast<const arrow::FixedSizeListArray&>(*list).values();
      offset = (list->offset() + offset) * length;
    } else {
      with_lengths(*list, [&](const auto& lists) {
        for (int64_t i = 0; i < count; ++i) learn(lists.value_length(offset + i), i, depth);
        array = contents(lists);
        offset = count > 0 ? lists.value_offset(offset) : 0;
      });
    }
    descend(array, offset, count * std::max<int64_t>(column_.shape[depth], 0), depth + 1);
  }

  void learn(int64_t length, int64_t list, size_t depth) {
    int64_t& known = column_.shape[depth];
    if (known == kUnknownLength) known = length;
    if (known == length) return;
    std::string advice =
        depth == 0 ? str("take it with batch.ragged(\"", column_.name,
                         "\") as values and offsets, or give `.padding = {{\"", column_.name,
                         "\", {}}}` to fill the shorter ones up")
                   : std::string("give lists within lists the same length with map_batches");
    throw Error(ErrorKind::kInvalidArgument,
                str("column '", column_.name, "' of type ", column_.type->ToString(), ": row ",
                    row_of(list, depth), " of the batch has a value of ", length,
                    " elements, and those before it have ", known,
                    ", so that they are no tensor of one shape: ", advice));
  }

  int64_t row_of(int64_t list, size_t depth) const {
    return column_.row_of(column_.rows + list / product(column_.shape, depth));
  }

  TensorColumn& column_;
  std::map<size_t, std::vector<int64_t>> shapes_;  // by depth, of tensors that are stored as lists
};

// The row whose list has the element.
int64_t row_with(const std::vector<int64_t>& offsets, int64_t element) {
  auto after = std::upper_bound(offsets.begin(), offsets.end(), element);
  return static_cast<int64_t>(after - offsets.begin()) - 1;
}

TensorColumn described(const std::string& name, const std::shared_ptr<arrow::DataType>& type) {
  number_type(*type, name);
  TensorColumn column;
  column.name = name;
  column.type = type;
  column.row_of = [](int64_t row) { return row; };
  return column;
}

}  // namespace

int64_t TensorColumn::width() const { return product(shape, shape.size()); }

TensorColumn rectangular(const std::string& name, const std::shared_ptr<arrow::DataType>& type,
                         const std::vector<ColumnRows>& parts) {
  TensorColumn column = described(name, type);
  Descent descent(column);
  for (const auto& part : parts) descent.add(part);
  descent.finish();
  return column;
}

RaggedColumn ragged(const std::string& name, const std::shared_ptr<arrow::DataType>& type,
                    const std::vector<ColumnRows>& parts) {
  RaggedColumn result{described(name, type), {0}};
  result.elements.row_of = [&](int64_t element) { return row_with(result.offsets, element); };
  Descent descent(result.elements);
  for (const auto& [column, offset, rows] : parts) {
    auto array = stored(column);
    int64_t first = 0;
    std::shared_ptr<arrow::Array> values;
    bool lists = with_lengths(*array, [&, offset = offset, rows = rows](const auto& each) {
      for (int64_t i = offset; i < offset + rows; ++i) {
        if (each.IsNull(i)) {
          refuse_null_list(name, static_cast<int64_t>(result.offsets.size()) - 1);
        }
        result.offsets.push_back(result.offsets.back() + each.value_length(i));
      }
      values = contents(each);
      first = rows > 0 ? each.value_offset(offset) : 0;
    });
    if (!lists) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("column '", name, "' is of type ", type->ToString(),
                      ", whose values all have one shape: take it with batch[\"", name,
                      "\"] instead of ragged() or padding"));
    }
    descent.add({values, first, result.offsets.back() - result.elements.rows});
  }
  descent.finish();
  // The function gets its own copy of the offsets.
  result.elements.row_of = [offsets = result.offsets](int64_t element) {
    return row_with(offsets, element);
  };
  return result;
}

namespace {

void require_plain_order(const arrow::extension::FixedShapeTensorType& tensors,
                         const arrow::DataType& type, const std::string& column) {
  if (std::is_sorted(tensors.permutation().begin(), tensors.permutation().end())) return;
  throw Error(ErrorKind::kInvalidArgument,
              str("column '", column, "' is of type ", type.ToString(),
                  ", whose dimensions are stored in another order; store them in their order, or "
                  "take the storage of the column in a map_batches and permute the tensor"));
}

}  // namespace

const arrow::DataType& number_type(const arrow::DataType& type, const std::string& column) {
  const arrow::DataType* inner = &type;
  while (inner->id() == arrow::Type::LIST || inner->id() == arrow::Type::LARGE_LIST ||
         inner->id() == arrow::Type::FIXED_SIZE_LIST || inner->id() == arrow::Type::EXTENSION) {
    if (auto* tensors = tensor_type(*inner)) require_plain_order(*tensors, type, column);
    inner = inner->id() == arrow::Type::EXTENSION
                ? &stored(*inner)
                : static_cast<const arrow::BaseListType&>(*inner).value_type().get();
  }
  arrow::Type::type id = inner->id();
  if (id == arrow::Type::BINARY || id == arrow::Type::LARGE_BINARY ||
      id == arrow::Type::FIXED_SIZE_BINARY) {
    return *arrow::uint8();
  }
  bool time = id == arrow::Type::DURATION || (arrow::is_temporal(id) && !arrow::is_interval(id));
  bool known = time || arrow::is_integer(id) || arrow::is_floating(id) || id == arrow::Type::BOOL;
  if (known) return *inner;
  std::string advice = "turn it into numbers first, e.g. with map_batches";
  if (arrow::is_decimal(id)) advice = "cast it in the data set, e.g. cast(\"float64\")";
  if (arrow::is_string(id) || id == arrow::Type::STRING_VIEW) {
    advice = inner == &type
                 ? "turn it into numbers with a preprocessor first: OrdinalEncoder or "
                   "OneHotEncoder for categories; for text CountVectorizer, HashingVectorizer, or "
                   "Tokenizer and then MultiHotEncoder"
                 : "turn the texts into numbers with a preprocessor first, e.g. MultiHotEncoder or "
                   "OrdinalEncoder for those that Tokenizer makes";
  }
  if (id == arrow::Type::DICTIONARY) {
    advice =
        "cast it in the data set to the type of its values, or turn it into numbers with "
        "OrdinalEncoder or OneHotEncoder";
  }
  throw Error(ErrorKind::kInvalidArgument, str("column '", column, "' is of type ", type.ToString(),
                                               ", which is no tensor's: ", advice));
}

void refuse_null_list(const std::string& column, int64_t row) {
  throw Error(ErrorKind::kInvalidArgument,
              str("column '", column, "' has a null in row ", row,
                  " of the batch in place of a list or binary value, which no tensor can hold: use "
                  "drop_na()"));
}

}  // namespace manta::detail
