#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace arrow {
class DataType;
class RecordBatch;
struct Scalar;
}  // namespace arrow

namespace manta {

/// A value of a row: null, a boolean, a number, a text, a list of those, or any Arrow scalar. C++
/// values convert to it implicitly. Signed integers, and unsigned ones of less than 64 bits, are
/// int64; uint64_t is uint64; floating-point numbers are float64. An empty std::optional is a null
/// of its type.
class RowValue {
 public:
  using Scalar = std::shared_ptr<arrow::Scalar>;

  RowValue() = default;        ///< Null, of whatever type the column has in other rows.
  RowValue(std::nullptr_t) {}  // NOLINT
  template <std::same_as<bool> T>
  RowValue(T value) : value_(value) {}  // NOLINT
  template <std::integral T>
  requires(!std::same_as<T, bool>) RowValue(T value) {  // NOLINT
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) {
      value_ = static_cast<uint64_t>(value);
    } else {
      value_ = static_cast<int64_t>(value);
    }
  }
  template <std::floating_point T>
  RowValue(T value) : value_(static_cast<double>(value)) {}       // NOLINT
  RowValue(const char* text) : value_(std::string(text)) {}       // NOLINT
  RowValue(std::string text) : value_(std::move(text)) {}         // NOLINT
  RowValue(std::string_view text) : value_(std::string(text)) {}  // NOLINT
  RowValue(Scalar scalar) : value_(std::move(scalar)) {}          // NOLINT
  template <class T>
  RowValue(const std::optional<T>& value)
      : RowValue(value ? RowValue(*value) : RowValue(T{})) {  // NOLINT
    null_ = !value;
  }
  template <class T>
  RowValue(const std::vector<T>& list) {  // NOLINT
    std::vector<RowValue> values;
    for (T each : list) values.emplace_back(each);
    value_ = list_of(values, RowValue(T{}));
  }

  bool is_null() const;
  /// As that type: see Row::get. `what` begins the message of an error.
  template <class T>
  T as(const std::string& what) const;

  /// A null has a type, too, unless it is std::monostate.
  using Variant =
      std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Scalar>;
  const Variant& variant() const { return value_; }
  std::shared_ptr<arrow::DataType> type() const;  ///< Null: of any type.

 private:
  static Scalar list_of(const std::vector<RowValue>& values, const RowValue& element);
  int64_t to_signed(const std::string& what) const;
  uint64_t to_unsigned(const std::string& what) const;
  double to_double(const std::string& what) const;
  bool to_bool(const std::string& what) const;
  std::string to_text(const std::string& what) const;
  std::vector<RowValue> to_list(const std::string& what) const;
  Scalar to_scalar() const;
  [[noreturn]] void fail(const std::string& what, const std::string& wanted) const;

  Variant value_;
  bool null_ = false;  ///< Of what `value_` has the type of.
};

/// One row: values by the names of columns. What `map`, `flat_map` and `filter` give to a function,
/// and what `iter_rows` gives.
///
///     Row with_speed(Row row) {
///       row.set("speed", row.get<double>("distance") / row.get<double>("hours"));
///       return row;
///     }
///     Dataset fast = trips.map(with_speed);
///
/// Copying it copies no values of the data set.
class Row {
 public:
  Row() = default;
  /// `Row{{"x", 1}, {"name", "a"}}`.
  Row(std::initializer_list<std::pair<std::string, RowValue>> values);
  /// Row `index` of a batch.
  Row(std::shared_ptr<const arrow::RecordBatch> batch, int64_t index);

  /// The value of a column, as one of these:
  /// - bool, of booleans
  /// - integers, of integers, of floating-point numbers and decimals without a fraction, and of
  ///   times, dates and durations in their units
  /// - float and double, of numbers; an integer that would be rounded is an error
  /// - std::string, of texts and binary values
  /// - std::vector of these, of lists
  /// - std::optional of these: nothing if it is null
  /// - std::shared_ptr<arrow::Scalar>, of anything
  ///
  /// Dictionaries give the values that they encode. Throws Error(kNotFound) if there is no such
  /// column, Error(kInvalidArgument) if it is null, or does not fit the type.
  template <class T>
  T get(const std::string& name) const {
    return value(name).template as<T>(name);
  }
  RowValue value(const std::string& name) const;
  bool is_null(const std::string& name) const { return value(name).is_null(); }
  bool has(const std::string& name) const;
  std::vector<std::string> columns() const;

  /// Adds a column, or replaces its value. In a batch that a function returns, an existing column
  /// keeps its type if all values that were set are of the type's kind (integers, floating point,
  /// text, boolean) and fit it; a float32 rounds. Otherwise it gets the type of the values, and so
  /// does a new column.
  Row& set(const std::string& name, RowValue value);
  /// Removes a column. Throws Error(kNotFound) if it is not there.
  Row& drop(const std::string& name);
  /// `{id: 1, text: "a"}`, for people; long values are cut.
  std::string to_string() const;

  /// A value: of a column of the batch, or one that was set.
  struct Cell {
    std::string name;
    int column = -1;  ///< Of the batch; -1: `value` counts.
    RowValue value = {};
  };
  /// All values, if they are not just those of the batch.
  const std::optional<std::vector<Cell>>& cells() const { return cells_; }
  const std::shared_ptr<const arrow::RecordBatch>& batch() const { return batch_; }
  int64_t index() const { return index_; }

 private:
  std::vector<Cell>& own_cells();
  [[noreturn]] void throw_unknown(const std::string& name) const;

  std::shared_ptr<const arrow::RecordBatch> batch_;
  int64_t index_ = 0;
  std::optional<std::vector<Cell>> cells_;
};

template <class T>
T RowValue::as(const std::string& what) const {
  if constexpr (requires {
                  typename T::value_type;
                  requires std::same_as<T, std::optional<typename T::value_type>>;
                }) {
    if (is_null()) return std::nullopt;
    return as<typename T::value_type>(what);
  } else if constexpr (std::same_as<T, Scalar>) {
    return to_scalar();
  } else if constexpr (std::same_as<T, bool>) {
    return to_bool(what);
  } else if constexpr (std::integral<T>) {
    if constexpr (std::is_unsigned_v<T>) {
      uint64_t number = to_unsigned(what);
      if (!std::in_range<T>(number)) fail(what, "an integer of so few bits");
      return static_cast<T>(number);
    } else {
      int64_t number = to_signed(what);
      if (!std::in_range<T>(number)) fail(what, "an integer of so few bits");
      return static_cast<T>(number);
    }
  } else if constexpr (std::floating_point<T>) {
    return static_cast<T>(to_double(what));
  } else if constexpr (std::same_as<T, std::string>) {
    return to_text(what);
  } else if constexpr (requires {
                         typename T::value_type;
                         requires std::same_as<T, std::vector<typename T::value_type>>;
                       }) {
    T list;
    for (const auto& each : to_list(what))
      list.push_back(each.template as<typename T::value_type>(what));
    return list;
  } else {
    static_assert(!sizeof(T),
                  "manta: Row::get gives bool, integers, float, double, std::string, std::vector "
                  "and std::optional of these, and std::shared_ptr<arrow::Scalar>");
  }
}

}  // namespace manta
