#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/preprocess/category_counts_internal.h"

namespace manta::preprocess {
namespace {

constexpr size_t kSmall = 4096;

template <class Counts>
void bump(Counts& counts, int64_t number, int64_t by = 1) {
  auto place = static_cast<size_t>(number);
  if (place == counts.size()) {
    counts.push_back(by);
  } else {
    counts[place] += by;
  }
}

}  // namespace

struct CategoryCounts::Counting {
  CategoryCounts& to;

  void null(int64_t) { ++to.nulls_; }
  void integer(int64_t, int64_t x) {
    if (static_cast<uint64_t>(x) < kSmall) {
      ++to.small_[static_cast<size_t>(x)];
    } else {
      bump(to.integer_counts_, to.integers_.insert(x));
    }
  }
  void huge(int64_t, uint64_t x) { ++to.huge_[x]; }
  void fraction(int64_t, double x) {
    if (std::isinf(x)) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(to.who_, ": column '", to.column_,
                      "' holds an infinite value, which cannot be a category; remove it with a "
                      "filter before"));
    }
    ++to.fractions_[x];
  }
  void text(int64_t, std::string_view x) { bump(to.text_counts_, to.texts_.insert(x)); }
};

CategoryCounts::CategoryCounts(std::string who, std::string column, Lists lists)
    : who_(std::move(who)), column_(std::move(column)), lists_(lists), small_(kSmall) {}

void CategoryCounts::set_type(const CategoryType& type) {
  if (type.kind == CategoryKind::kNone) return;
  bool is_first = type_.kind == CategoryKind::kNone;
  bool fits =
      type.exact && type_.exact ? type.exact->Equals(*type_.exact) : type.is_comparable(type_);
  if (!is_first && !fits) {
    throw Error(ErrorKind::kInvalidArgument,
                str(who_, ": column '", column_, "' has values of type ", type_.name(),
                    " in some rows and ", type.name(), " in others; cast it to one type"));
  }
  if (is_first || type.kind > type_.kind) type_ = type;
}

void CategoryCounts::add(const std::shared_ptr<arrow::Array>& column) {
  auto type = category_type(*column->type(), column_, who_);
  if (type.kind != CategoryKind::kList) {
    set_type(type);
    auto plain = data::plain_column(column);
    add_values(*plain, 0, plain->length());
  } else {
    auto lists = ListRows::of(column);
    if (lists_ == Lists::kWhole) require_whole_lists(*column->type(), column_, who_);
    set_type(lists_ == Lists::kWhole ? type
                                     : element_category_type(*column->type(), column_, who_));
    for (int64_t row = 0; row < column->length(); ++row) {
      if (column->IsNull(row)) {
        ++nulls_;
      } else if (lists_ == Lists::kElements) {
        add_values(*lists->values, lists->begin(row), lists->end(row));
      } else if (auto whole = list_as_json(*lists, row)) {
        ++whole_lists_[std::move(*whole)];
      } else {
        ++nulls_;
      }
    }
  }
  require_few();
}

void CategoryCounts::add_values(const arrow::Array& values, int64_t begin, int64_t end) {
  for_each_value(values, begin, end, Counting{*this});
}

void CategoryCounts::merge(CategoryCounts& more) {
  set_type(more.type_);
  nulls_ += more.nulls_;
  for (size_t i = 0; i < small_.size(); ++i) small_[i] += more.small_[i];
  for (size_t i = 0; i < more.integers_.size(); ++i) {
    bump(integer_counts_, integers_.insert(more.integers_[i]), more.integer_counts_[i]);
  }
  for (const auto& [value, count] : more.huge_) huge_[value] += count;
  for (const auto& [value, count] : more.fractions_) fractions_[value] += count;
  for (size_t i = 0; i < more.texts_.size(); ++i) {
    bump(text_counts_, texts_.insert(more.texts_[i]), more.text_counts_[i]);
  }
  for (const auto& [value, count] : more.whole_lists_) whole_lists_[value] += count;
  require_few();
}

size_t CategoryCounts::size() const {
  return integers_.size() + huge_.size() + fractions_.size() + texts_.size() + whole_lists_.size() +
         static_cast<size_t>(
             std::count_if(small_.begin(), small_.end(), [](int64_t count) { return count > 0; }));
}

void CategoryCounts::require_few() const {
  size_t others =
      integers_.size() + huge_.size() + fractions_.size() + texts_.size() + whole_lists_.size();
  if (others <= kMostCategories && texts_.bytes() <= kMostCategoryBytes) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(who_, ": column '", column_, "' has too many different values: more than ",
                  others > kMostCategories ? str(kMostCategories)
                                           : str(kMostCategoryBytes >> 20, " MiB of text"),
                  "; leave the column out, or count its tokens with a HashingVectorizer, which "
                  "keeps none of them"));
}

std::vector<std::pair<Json, int64_t>> CategoryCounts::sorted() const {
  std::vector<std::pair<Json, int64_t>> values;
  values.reserve(size());
  bool booleans = type_.kind == CategoryKind::kBoolean;
  std::vector<std::pair<int64_t, int64_t>> integers;
  for (size_t i = 0; i < small_.size(); ++i) {
    if (small_[i] > 0) integers.emplace_back(static_cast<int64_t>(i), small_[i]);
  }
  for (size_t i = 0; i < integers_.size(); ++i) {
    integers.emplace_back(integers_[i], integer_counts_[i]);
  }
  std::sort(integers.begin(), integers.end());
  auto fraction = fractions_.begin();
  auto add_fractions = [&](auto before) {
    for (; fraction != fractions_.end() && before(fraction->first); ++fraction) {
      values.emplace_back(fraction->first, fraction->second);
    }
  };
  for (const auto& [value, count] : integers) {
    // A fraction is either within 2^53, where integers are exact, or outside the range of all
    // integers.
    add_fractions([x = static_cast<double>(value)](double other) { return other < x; });
    values.emplace_back(booleans ? Json(value != 0) : Json(value), count);
  }
  add_fractions([](double other) { return other < 9223372036854775808.0; });
  for (const auto& [value, count] : huge_) values.emplace_back(value, count);
  add_fractions([](double) { return true; });
  std::vector<size_t> order(texts_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (type_.kind == CategoryKind::kDecimal) {
    std::vector<arrow::Decimal256> decimals;
    for (size_t i : order) decimals.push_back(*decimal_of(std::string(texts_[i]), *type_.exact));
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return decimals[a] < decimals[b]; });
  } else {
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return texts_[a] < texts_[b]; });
  }
  for (size_t i : order) values.emplace_back(texts_[i], text_counts_[i]);
  for (const auto& [value, count] : whole_lists_) values.emplace_back(value, count);
  return values;
}

std::vector<Json> most_frequent(std::vector<std::pair<Json, int64_t>> sorted, size_t most) {
  std::vector<size_t> places(sorted.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = i;
  if (most < places.size()) {
    std::stable_sort(places.begin(), places.end(),
                     [&](size_t a, size_t b) { return sorted[a].second > sorted[b].second; });
    places.resize(most);
    std::sort(places.begin(), places.end());
  }
  std::vector<Json> values;
  for (size_t place : places) values.push_back(std::move(sorted[place].first));
  return values;
}

CategoryTally::CategoryTally(const internal::Columns& columns, Lists lists) : columns_(columns) {
  for (const auto& name : columns.inputs()) parts_.emplace_back(columns.who(), name, lists);
}

void CategoryTally::add(const data::BatchPtr& batch) {
  auto arrays = columns_.of(*batch);
  for (size_t i = 0; i < arrays.size(); ++i) parts_[i].add(arrays[i]);
}

void CategoryTally::merge(Tally& more) {
  auto& other = static_cast<CategoryTally&>(more);
  for (size_t i = 0; i < parts_.size(); ++i) parts_[i].merge(other.parts_[i]);
}

}  // namespace manta::preprocess
