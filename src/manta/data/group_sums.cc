#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/util/bit_util.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "manta/base/error_internal.h"
#include "manta/data/group_sums_internal.h"
#include "manta/data/wide_internal.h"
#include "manta/data/wide_types_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

using ArrayPtr = std::shared_ptr<arrow::Array>;

constexpr const char* kAddingUp = "adding up groups";
constexpr uint32_t kNone = UINT32_MAX;

bool has_fixed_width(const arrow::DataType& type) {
  return arrow::is_primitive(type.id()) && type.id() != arrow::Type::BOOL &&
         type.id() != arrow::Type::HALF_FLOAT && type.bit_width() <= 64;
}

// Tells in which rows a column has values.
class Validity {
 public:
  explicit Validity(const arrow::Array& array)
      : bits_(array.null_count() > 0 ? array.null_bitmap_data() : nullptr),
        offset_(array.offset()) {}
  bool all() const { return !bits_; }
  bool operator[](int64_t row) const {
    return !bits_ || arrow::bit_util::GetBit(bits_, offset_ + row);
  }

 private:
  const uint8_t* const bits_;
  const int64_t offset_;
};

// The bits of equal keys are equal: both zeros are equal, and so are all NaN.
template <class T>
uint64_t bits_of(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (value == 0) value = 0;
    if (value != value) value = std::numeric_limits<T>::quiet_NaN();
    return std::bit_cast<std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>(value);
  } else {
    return static_cast<uint64_t>(value);
  }
}

ArrayPtr int64_array(const int64_t* values, int64_t count) {
  arrow::Int64Builder builder;
  check(builder.AppendValues(values, count), kAddingUp);
  return check(builder.Finish(), kAddingUp);
}

arrow::Datum taken(const arrow::Datum& from, const ArrayPtr& places) {
  return check(arrow::compute::Take(from, places), kAddingUp);
}

// 1 where there is a value, else 0.
ArrayPtr ones_where_valid(const arrow::Array* array, int64_t rows) {
  std::vector<int64_t> ones(static_cast<size_t>(rows), 1);
  if (array) {
    Validity valid(*array);
    for (int64_t i = 0; i < rows; ++i) ones[static_cast<size_t>(i)] = valid[i] ? 1 : 0;
  }
  return int64_array(ones.data(), rows);
}

}  // namespace

/// The ids of keys, from 0 on.
struct GroupSums::Table {
  static constexpr int kBits = 14;  // of the table's size: at most a quarter is in use
  struct Slot {
    uint64_t key = 0;
    uint32_t id = kNone;
  };

  // kNone: there are too many.
  uint32_t find(uint64_t key, bool* is_new) {
    size_t at = (key * 0x9E3779B97F4A7C15ull) >> (64 - kBits);
    for (; slots[at].id != kNone; at = (at + 1) % slots.size()) {
      if (slots[at].key == key) return slots[at].id;
    }
    if (size == kMostGroups) return kNone;
    *is_new = true;
    slots[at] = {key, size};
    return size++;
  }
  uint32_t find_null(bool* is_new) {
    if (null_id != kNone || size == kMostGroups) return null_id;
    *is_new = true;
    return null_id = size++;
  }

  // Fills in the ids of the first rows, up to the first whose id is kNone; returns how many those
  // are.
  template <class KeyOf, class HasKey>
  int64_t find_all(int64_t rows, const KeyOf& key_of, const HasKey& has_key, uint32_t* ids,
                   std::vector<int64_t>& fresh) {
    fresh.clear();
    for (int64_t row = 0; row < rows; ++row) {
      bool is_new = false;
      ids[row] = has_key(row) ? find(key_of(row), &is_new) : find_null(&is_new);
      if (is_new) fresh.push_back(row);
      if (ids[row] == kNone) return row;
    }
    return rows;
  }

  // Of a column.
  int64_t find_all(const arrow::Array& column, int64_t rows, uint32_t* ids,
                   std::vector<int64_t>& fresh) {
    auto of = [&](const auto* values) {
      auto key_of = [&](int64_t row) { return bits_of(values[row]); };
      Validity valid(column);
      if (!valid.all())
        return find_all(
            rows, key_of, [&](int64_t i) { return valid[i]; }, ids, fresh);
      return find_all(
          rows, key_of, [](int64_t) { return true; }, ids, fresh);
    };
    const arrow::ArrayData& data = *column.data();
    if (column.type_id() == arrow::Type::DOUBLE) return of(data.GetValues<double>(1));
    if (column.type_id() == arrow::Type::FLOAT) return of(data.GetValues<float>(1));
    switch (column.type()->bit_width()) {
      case 8:
        return of(data.GetValues<uint8_t>(1));
      case 16:
        return of(data.GetValues<uint16_t>(1));
      case 32:
        return of(data.GetValues<uint32_t>(1));
      default:
        return of(data.GetValues<uint64_t>(1));
    }
  }

  std::vector<Slot> slots = std::vector<Slot>(size_t{1} << kBits);
  uint32_t null_id = kNone;
  uint32_t size = 0;
};

/// One aggregate of all groups.
struct GroupSums::Sum {
  bool adds() const { return kind != Kind::kCount; }

  void add(const arrow::RecordBatch& batch, int64_t rows, const uint32_t* ids, size_t num_groups) {
    counts.resize(num_groups);
    totals.resize(num_groups);
    if (!prepared.lane()) {
      for (int64_t i = 0; i < rows; ++i) ++counts[ids[i]];
      return;
    }
    ArrayPtr lane = prepared.encode(batch);
    Validity valid(*lane);
    if (!adds()) {
      for (int64_t i = 0; i < rows; ++i) counts[ids[i]] += valid[i] ? 1 : 0;
      return;
    }
    const double* values = static_cast<const arrow::DoubleArray&>(*lane).raw_values();
    for (int64_t i = 0; i < rows; ++i) {
      if (!valid[i]) continue;
      totals[ids[i]] += values[i];
      ++counts[ids[i]];
    }
  }

  ArrayPtr all_totals() const {
    arrow::DoubleBuilder builder;
    for (size_t i = 0; i < totals.size(); ++i) {
      check(counts[i] > 0 ? builder.Append(totals[i]) : builder.AppendNull(), kAddingUp);
    }
    return check(builder.Finish(), kAddingUp);
  }
  ArrayPtr means() const {
    arrow::DoubleBuilder builder;
    for (size_t i = 0; i < totals.size(); ++i) {
      double mean = totals[i] / static_cast<double>(counts[i]);
      check(counts[i] > 0 ? builder.Append(mean) : builder.AppendNull(), kAddingUp);
    }
    return check(builder.Finish(), kAddingUp);
  }
  ArrayPtr all_counts() const { return int64_array(counts.data(), std::ssize(counts)); }

  Kind kind;
  PreparedAggregate prepared;
  std::vector<double> totals = {};  // of groups without a value: 0
  std::vector<int64_t> counts = {};
};

bool GroupSums::suits(const std::vector<std::string>& keys,
                      const std::vector<Aggregate>& aggregates, const arrow::Schema& schema) {
  bool adds = false;
  for (const auto& aggregate : aggregates) {
    if (aggregate.kind() == Kind::kCount) continue;
    auto field = schema.GetFieldByName(aggregate.column());
    bool is_sum = aggregate.kind() == Kind::kSum || aggregate.kind() == Kind::kMean;
    if (!is_sum || !field || !arrow::is_floating(field->type()->id())) return false;
    adds = true;
  }
  return adds && std::all_of(keys.begin(), keys.end(), [&](const std::string& key) {
           return has_fixed_width(*schema.GetFieldByName(key)->type());
         });
}

GroupSums::GroupSums(std::vector<std::string> keys, const std::vector<Aggregate>& aggregates,
                     const std::vector<PreparedAggregate>& prepared)
    : keys_(std::move(keys)), values_(keys_.size()) {
  for (size_t i = 0; i < aggregates.size(); ++i)
    sums_.push_back({aggregates[i].kind(), prepared[i]});
  tables_.resize(keys_.empty() ? 0 : 2 * keys_.size() - 1);
  if (!keys_.empty()) return;
  num_groups_ = 1;  // even without rows
  for (Sum& sum : sums_) {
    sum.counts.resize(1);
    sum.totals.resize(1);
  }
}
GroupSums::~GroupSums() = default;

int64_t GroupSums::add(const arrow::RecordBatch& batch) {
  int64_t rows = find_groups(batch);
  for (Sum& sum : sums_) sum.add(batch, rows, ids_.data(), num_groups_);
  return rows;
}

// Fills ids_ for as many rows as it returns.
int64_t GroupSums::find_groups(const arrow::RecordBatch& batch) {
  int64_t rows = batch.num_rows();
  ids_.assign(static_cast<size_t>(rows), 0);
  if (keys_.empty()) return rows;
  others_.resize(ids_.size());
  auto table = tables_.begin();
  rows = table++->find_all(*batch.GetColumnByName(keys_[0]), rows, ids_.data(), fresh_);
  for (size_t key = 1; key < keys_.size(); ++key) {
    rows = table++->find_all(*batch.GetColumnByName(keys_[key]), rows, others_.data(), fresh_);
    auto both = [&](int64_t row) { return uint64_t{ids_[row]} << 32 | others_[row]; };
    rows = table++->find_all(
        rows, both, [](int64_t) { return true; }, ids_.data(), fresh_);
  }
  if (fresh_.empty()) return rows;
  num_groups_ = tables_.back().size;
  auto places = int64_array(fresh_.data(), std::ssize(fresh_));
  for (size_t key = 0; key < keys_.size(); ++key) {
    values_[key].push_back(taken(batch.GetColumnByName(keys_[key]), places).make_array());
  }
  return rows;
}

std::vector<std::shared_ptr<arrow::DataType>> GroupSums::lanes() const {
  std::vector<std::shared_ptr<arrow::DataType>> all;
  for (const Sum& sum : sums_) {
    if (sum.adds()) all.push_back(arrow::float64());
    if (sum.kind != Kind::kSum) all.push_back(arrow::int64());
  }
  return all;
}

std::vector<std::string> GroupSums::sql(size_t first) const {
  std::vector<std::string> all;
  for (const Sum& sum : sums_) {
    std::string total = str("sum(c", first, ")"), next = str("sum(c", first + 1, ")");
    if (sum.kind == Kind::kCount) {
      all.push_back(str("coalesce(", total, ", 0)::BIGINT"));
    } else if (sum.kind == Kind::kSum) {
      all.push_back(total);
    } else {
      all.push_back(str(total, " / ", next, "::DOUBLE"));
    }
    first += sum.kind == Kind::kMean ? 2 : 1;
  }
  return all;
}

std::vector<ArrayPtr> GroupSums::key_lanes() const {
  std::vector<ArrayPtr> all;
  for (const auto& values : values_) {
    all.push_back(Key::encode(check(arrow::Concatenate(values), kAddingUp)));
  }
  return all;
}

std::shared_ptr<arrow::RecordBatch> GroupSums::groups() const {
  if (num_groups_ == 0) return nullptr;
  arrow::ArrayVector all = key_lanes();
  for (const Sum& sum : sums_) {
    if (sum.adds()) all.push_back(sum.all_totals());
    if (sum.kind != Kind::kSum) all.push_back(sum.all_counts());
  }
  return lanes_batch(std::move(all), num_groups_);
}

std::shared_ptr<arrow::RecordBatch> GroupSums::results() const {
  if (num_groups_ == 0) return nullptr;
  arrow::ArrayVector all = key_lanes();
  for (const Sum& sum : sums_) {
    all.push_back(sum.kind == Kind::kCount ? sum.all_counts()
                  : sum.kind == Kind::kSum ? sum.all_totals()
                                           : sum.means());
  }
  auto groups = lanes_batch(std::move(all), num_groups_);
  if (keys_.empty()) return groups;
  // The last key first: each sort keeps the order of those before where its keys are equal.
  ArrayPtr places = numbers_from(0, num_groups_);
  for (size_t key = keys_.size(); key-- > 0;) {
    auto lane = taken(groups->column(static_cast<int>(key)), places).make_array();
    places = taken(places, check(arrow::compute::SortIndices(*lane), kAddingUp)).make_array();
  }
  return taken(groups, places).record_batch();
}

std::shared_ptr<arrow::RecordBatch> GroupSums::single_rows(const arrow::RecordBatch& batch) const {
  arrow::ArrayVector all;
  for (const auto& key : keys_) all.push_back(Key::encode(batch.GetColumnByName(key)));
  for (const Sum& sum : sums_) {
    ArrayPtr lane = sum.prepared.lane() ? sum.prepared.encode(batch) : nullptr;
    if (sum.adds()) all.push_back(lane);
    if (sum.kind != Kind::kSum) all.push_back(ones_where_valid(lane.get(), batch.num_rows()));
  }
  return lanes_batch(std::move(all), batch.num_rows());
}

}  // namespace manta::data
