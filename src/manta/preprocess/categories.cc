#include <arrow/compute/api.h>

#include <algorithm>
#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/preprocess/categories_internal.h"
#include "manta/preprocess/numbers_internal.h"

namespace manta::preprocess {
namespace {

// Integers within a range of this size have a table of the whole range.
constexpr int64_t kDenseRange = 1 << 16;

bool is_int64(const Json& value) {
  return value.is_number_integer() &&
         !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX});
}

bool is_of_type(const Json& value, const CategoryType& type) {
  switch (type.kind) {
    case CategoryKind::kBoolean:
      return value.is_boolean();
    case CategoryKind::kInteger:
      return is_int64(value);
    case CategoryKind::kTime:
      return is_int64(value) &&
             (type.exact->byte_width() == 8 || std::in_range<int32_t>(value.get<int64_t>()));
    case CategoryKind::kDecimal:
      return value.is_string() && decimal_of(value.get<std::string>(), *type.exact);
    case CategoryKind::kUnsigned:
      return value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0);
    case CategoryKind::kFloat:
      return value.is_number() && std::isfinite(value.get<double>());
    case CategoryKind::kText:
      return value.is_string();
    case CategoryKind::kList:
      return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& element) {
               return element.is_primitive() && !element.is_null();
             });
    default:
      return false;
  }
}

}  // namespace

Categories::Categories(CategoryType type, std::vector<Json> values)
    : type_(std::move(type)), values_(std::move(values)) {
  if (values_.size() > kMostCategories) {
    throw Error(ErrorKind::kInvalidArgument, str("more than ", kMostCategories, " categories"));
  }
  for (size_t i = 0; i < values_.size(); ++i) add(values_[i], static_cast<int32_t>(i));
  make_dense();
}

void Categories::add(const Json& value, int32_t code) {
  if (!is_of_type(value, type_)) {
    throw Error(ErrorKind::kInvalidArgument,
                str("the category ", short_text(value), " is not of type ", type_.name()));
  }
  bool is_new = true;
  auto add_integer = [&](int64_t x) {
    is_new = integers_.insert(x) == static_cast<int64_t>(integer_codes_.size());
    integer_codes_.push_back(code);
  };
  if (value.is_string()) {
    is_new = texts_.insert(value.get_ref<const std::string&>()) == code;
  } else if (value.is_array()) {
    is_new = lists_.emplace(value, code).second;
  } else if (value.is_boolean()) {
    add_integer(value.get<bool>());
  } else if (value.is_number_float()) {
    struct {
      void null(int64_t) {}
      void integer(int64_t, int64_t x) { whole = x; }
      void huge(int64_t, uint64_t x) { big = x; }
      void fraction(int64_t, double) {}
      std::optional<int64_t> whole;
      std::optional<uint64_t> big;
    } take;
    detail::take_float(0, value.get<double>(), take);
    if (take.whole) {
      add_integer(*take.whole);
    } else if (take.big) {
      is_new = huge_.emplace(*take.big, code).second;
    } else {
      is_new = fractions_.emplace(value.get<double>(), code).second;
    }
  } else if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) {
    is_new = huge_.emplace(value.get<uint64_t>(), code).second;
  } else {
    add_integer(value.get<int64_t>());
  }
  if (!is_new) {
    throw Error(ErrorKind::kInvalidArgument,
                str("the category ", short_text(value), " is there twice"));
  }
}

void Categories::make_dense() {
  if (integers_.size() == 0) return;
  int64_t least = INT64_MAX, most = INT64_MIN;
  for (size_t i = 0; i < integers_.size(); ++i) {
    least = std::min(least, integers_[i]);
    most = std::max(most, integers_[i]);
  }
  uint64_t range = static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
  if (range >= static_cast<uint64_t>(kDenseRange)) return;
  dense_first_ = least;
  dense_.assign(range + 1, kUnseen);
  for (size_t i = 0; i < integers_.size(); ++i) {
    dense_[static_cast<size_t>(integers_[i] - least)] = integer_codes_[i];
  }
}

struct Categories::Coding {
  const Categories& of;
  int32_t* codes;  // the place for row 0
  void null(int64_t row) { codes[row] = kMissing; }
  void integer(int64_t row, int64_t x) {
    if (!of.dense_.empty()) {
      uint64_t place = static_cast<uint64_t>(x) - static_cast<uint64_t>(of.dense_first_);
      codes[row] = place < of.dense_.size() ? of.dense_[place] : kUnseen;
      return;
    }
    int64_t number = of.integers_.find(x);
    codes[row] = number < 0 ? kUnseen : of.integer_codes_[static_cast<size_t>(number)];
  }
  void huge(int64_t row, uint64_t x) { codes[row] = found(of.huge_, x); }
  void fraction(int64_t row, double x) { codes[row] = found(of.fractions_, x); }
  void text(int64_t row, std::string_view x) {
    codes[row] = static_cast<int32_t>(of.texts_.find(x));  // -1 is kUnseen
  }

  template <class Map, class Key>
  static int32_t found(const Map& map, const Key& key) {
    auto entry = map.find(key);
    return entry == map.end() ? kUnseen : entry->second;
  }
};

// Converts times to the unit of the categories. A time that this unit cannot hold has not been
// learned.
struct Categories::TimeCoding {
  Coding coding;
  TimeScale scale;
  void null(int64_t row) { coding.null(row); }
  void integer(int64_t row, int64_t x) {
    int64_t scaled = 0;
    if (x % scale.over != 0 || __builtin_mul_overflow(x / scale.over, scale.times, &scaled)) {
      coding.codes[row] = kUnseen;
    } else {
      coding.integer(row, scaled);
    }
  }
  void huge(int64_t row, uint64_t x) { coding.huge(row, x); }
  void fraction(int64_t row, double x) { coding.fraction(row, x); }
  void text(int64_t row, std::string_view x) { coding.text(row, x); }
};

void Categories::codes_of(const arrow::Array& values, int64_t begin, int64_t end,
                          int32_t* codes) const {
  Coding coding{*this, codes - begin};
  if (type_.kind == CategoryKind::kTime && values.type_id() != arrow::Type::NA) {
    for_each_value(values, begin, end,
                   TimeCoding{coding, time_scale(*values.type(), *type_.exact)});
  } else {
    for_each_value(values, begin, end, coding);
  }
}

void Categories::require_type(const CategoryType& type, const std::string& name,
                              const std::string& who) const {
  if (type_.is_comparable(type)) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(who, ": column '", name, "' has values of type ", type.name(),
                  ", and it was fitted to categories of type ", type_.name(),
                  "; cast the column, or fit it again"));
}

std::vector<int32_t> Categories::codes(const std::shared_ptr<arrow::Array>& column,
                                       const std::string& name, const std::string& who) const {
  auto type = category_type(*column->type(), name, who);
  require_type(type, name, who);
  std::vector<int32_t> codes(static_cast<size_t>(column->length()));
  if (type.kind != CategoryKind::kList) {
    auto plain = data::plain_column(column);
    codes_of(*plain, 0, plain->length(), codes.data());
    return codes;
  }
  require_whole_lists(*column->type(), name, who);
  auto lists = ListRows::of(column);
  for (int64_t row = 0; row < column->length(); ++row) {
    auto whole = column->IsNull(row) ? std::nullopt : list_as_json(*lists, row);
    codes[static_cast<size_t>(row)] = whole ? Coding::found(lists_, *whole) : kMissing;
  }
  return codes;
}

const std::shared_ptr<arrow::Array>& Categories::array() const {
  std::call_once(array_once_, [this] { array_ = make_array(); });
  return array_;
}

std::shared_ptr<arrow::Array> Categories::make_array() const {
  constexpr const char* kDoing = "making a column of categories";
  auto build = [&](auto builder, auto value_of) {
    for (const Json& value : values_) check(builder.Append(value_of(value)), kDoing);
    return check(builder.Finish(), kDoing);
  };
  switch (type_.kind) {
    case CategoryKind::kBoolean:
      return build(arrow::BooleanBuilder(), [](const Json& x) { return x.get<bool>(); });
    case CategoryKind::kInteger:
      return build(arrow::Int64Builder(), [](const Json& x) { return x.get<int64_t>(); });
    case CategoryKind::kUnsigned:
      return build(arrow::UInt64Builder(), [](const Json& x) { return x.get<uint64_t>(); });
    case CategoryKind::kFloat:
      return build(arrow::DoubleBuilder(), [](const Json& x) { return x.get<double>(); });
    case CategoryKind::kTime: {
      auto integers = build(arrow::Int64Builder(), [](const Json& x) { return x.get<int64_t>(); });
      if (type_.exact->byte_width() == 4) {
        integers = build(arrow::Int32Builder(), [](const Json& x) { return x.get<int32_t>(); });
      }
      return check(integers->View(type_.exact), kDoing);
    }
    case CategoryKind::kDecimal: {
      auto digits = [&](const Json& x) { return *decimal_of(x.get<std::string>(), *type_.exact); };
      if (type_.exact->id() == arrow::Type::DECIMAL256) {
        return build(arrow::Decimal256Builder(type_.exact), digits);
      }
      return build(arrow::Decimal128Builder(type_.exact), [&](const Json& x) {
        auto words = digits(x).little_endian_array();
        return arrow::Decimal128(static_cast<int64_t>(words[1]), words[0]);
      });
    }
    default:
      return build(arrow::StringBuilder(), [](const Json& x) { return x.get<std::string>(); });
  }
}

Json Categories::to_json() const { return {{"type", type_.name()}, {"values", values_}}; }

CategoriesPtr Categories::read(const JsonFields& fields) {
  auto type = CategoryType::named(fields.text("type"));
  if (!type || type->kind == CategoryKind::kNone) {
    fields.fail("type",
                "bool, int64, uint64, float64, string, list, or the type of times or decimals");
  }
  const Json& values = fields.array("values");
  return std::make_shared<Categories>(*type, std::vector<Json>(values.begin(), values.end()));
}

CategoriesPtr learn_categories(const CategoryCounts& counts, const std::string& column,
                               const std::string& who, bool nulls_allowed,
                               std::optional<size_t> most) {
  if (counts.nulls() > 0 && !nulls_allowed) {
    throw Error(ErrorKind::kInvalidArgument,
                str(who, ": column '", column, "' has ", counts.nulls(),
                    " nulls or NaN, which are no category; fill them with a SimpleImputer before, "
                    "or drop_na"));
  }
  auto sorted = counts.sorted();
  if (sorted.empty()) throw_nothing_to_learn(column, who);
  auto values = most_frequent(std::move(sorted), most.value_or(SIZE_MAX));
  for (const Json& value : values) {
    if (is_utf8(value)) continue;
    throw Error(ErrorKind::kInvalidArgument,
                str(who, ": column '", column, "' holds a text that is not UTF-8: ",
                    short_text(value), "; a category must be"));
  }
  return std::make_shared<Categories>(counts.type(), std::move(values));
}

void write_categories(const std::vector<CategoriesPtr>& categories, Json& state) {
  for (const auto& one : categories) state["categories"].push_back(one->to_json());
}

std::vector<CategoriesPtr> read_categories(const JsonFields& fields, size_t columns) {
  std::vector<CategoriesPtr> categories;
  if (!fields.has("categories")) return categories;
  if (fields.array("categories").size() != columns) {
    fields.fail("categories", str(columns, " lists, one for each column"));
  }
  for (size_t i = 0; i < columns; ++i) {
    categories.push_back(Categories::read(fields.element("categories", i)));
  }
  return categories;
}

void require_no_missing(const std::vector<int32_t>& codes, const std::string& column,
                        const std::string& who) {
  auto found = std::find(codes.begin(), codes.end(), Categories::kMissing);
  if (found == codes.end()) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(who, ": column '", column, "' holds a null or NaN in row ", found - codes.begin(),
                  " of the batch, which is no category; fill it with a SimpleImputer before, or "
                  "drop_na"));
}

void check_category_columns(const internal::Columns& columns, const arrow::Schema& schema) {
  columns.require(schema);
  for (const auto& name : columns.inputs()) {
    category_type(*schema.GetFieldByName(name)->type(), name, columns.who());
  }
}

std::shared_ptr<arrow::Array> codes_as_integers(const std::vector<int32_t>& codes) {
  auto rows = static_cast<int64_t>(codes.size());
  auto buffer = new_buffer(rows * 8);
  auto* values = reinterpret_cast<int64_t*>(buffer->mutable_data());
  int64_t unseen = 0;
  for (size_t i = 0; i < codes.size(); ++i) {
    values[i] = std::max(codes[i], 0);
    unseen += codes[i] < 0;
  }
  std::shared_ptr<arrow::Buffer> validity;
  if (unseen > 0) {
    validity = check(arrow::AllocateEmptyBitmap(rows), "making a column of codes");
    for (size_t i = 0; i < codes.size(); ++i) {
      if (codes[i] >= 0) {
        arrow::bit_util::SetBit(validity->mutable_data(), static_cast<int64_t>(i));
      }
    }
  }
  return std::make_shared<arrow::Int64Array>(rows, std::move(buffer), std::move(validity), unseen);
}

std::shared_ptr<arrow::Array> values_of_codes(const arrow::Array& codes,
                                              const Categories& categories,
                                              const std::string& column, const std::string& who) {
  if (!arrow::is_integer(codes.type_id()) && !arrow::is_floating(codes.type_id())) {
    throw Error(ErrorKind::kInvalidArgument,
                str(who, ": column '", column, "' is of type ", codes.type()->ToString(),
                    ", not the codes that transform gives"));
  }
  struct {
    void null(int64_t row) { places[static_cast<size_t>(row)] = -1; }
    void integer(int64_t row, int64_t x) {
      bool known = x >= 0 && x < size;
      places[static_cast<size_t>(row)] = known ? x : -1;
    }
    void huge(int64_t row, uint64_t) { null(row); }
    void fraction(int64_t row, double) { null(row); }
    void text(int64_t row, std::string_view) { null(row); }
    int64_t size;
    std::vector<int64_t> places;
  } take{static_cast<int64_t>(categories.size()),
         std::vector<int64_t>(static_cast<size_t>(codes.length()))};
  for_each_value(codes, 0, codes.length(), take);
  arrow::Int64Builder places;
  for (int64_t place : take.places) {
    check(place < 0 ? places.AppendNull() : places.Append(place), "taking categories");
  }
  data::start_compute();
  return check(arrow::compute::Take(*categories.array(), *check(places.Finish(), "codes")),
               "taking categories");
}

}  // namespace manta::preprocess
