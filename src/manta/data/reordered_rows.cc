#include <arrow/api.h>
#include <arrow/util/bit_util.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/data/gather_internal.h"
#include "manta/data/recycling_pool_internal.h"
#include "manta/data/reordered_rows_internal.h"
#include "manta/data/row_layout_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr const char* kReordering = "bringing rows into another order";

using BufferPtr = std::shared_ptr<arrow::Buffer>;

// Of memory that is used again: what is new costs more than to write to it.
template <class T>
BufferPtr room_for(size_t values) {
  auto bytes = static_cast<int64_t>(values * sizeof(T));
  return check(arrow::AllocateBuffer(bytes, &RecyclingPool::instance()), kReordering);
}
template <class T>
T* values_in(const BufferPtr& buffer) {
  return reinterpret_cast<T*>(buffer->mutable_data());
}

/// An order of rows, and how to bring values into it without looking for each in a column that is
/// larger than the nearest cache. Values are read as they lie and dealt out to buckets, each of
/// which has the places of some thousand rows of the result; then each bucket is put into its
/// order.
class Reordering {
 public:
  explicit Reordering(std::span<const uint32_t> order) : rows_(order.size()) {
    bits_ =
        std::clamp(static_cast<int>(std::bit_width(rows_)) - kBitsOfBuckets, kLeastBits, kMostBits);
    place_of_ = room_for<uint32_t>(rows_);
    auto* place_of = values_in<uint32_t>(place_of_);
    for (size_t i = 0; i < rows_; ++i) place_of[order[i]] = static_cast<uint32_t>(i);
    place_in_bucket_ = room_for<uint16_t>(dealt_size<uint16_t>());
    uint32_t mask = (uint32_t{1} << bits_) - 1;
    Dealing<uint16_t>(*this, values_in<uint16_t>(place_in_bucket_))
        .add(static_cast<int64_t>(rows_),
             [&](int64_t row) { return static_cast<uint16_t>(place_of[row] & mask); });
  }

  size_t rows() const { return rows_; }

  /// How much room dealt values of the type take. Beside the values there is a line of memory
  /// between two buckets: at distances of a power of two, the lines that are written to by turns
  /// would drive each other out of the cache.
  template <class T>
  size_t dealt_size() const {
    return rows() + buckets() * kInLine<T>;
  }

  /// Deals out values, which are added in the order in which they lie.
  template <class T>
  class Dealing {
   public:
    Dealing(const Reordering& order, T* to) : order_(order), next_(order.buckets()) {
      for (size_t i = 0; i < next_.size(); ++i) next_[i] = to + i * order.stride<T>();
    }
    /// The next so many, of which `value_of(i)` is number i.
    template <class ValueOf>
    void add(int64_t count, const ValueOf& value_of) {
      const uint32_t* place_of = values_in<uint32_t>(order_.place_of_) + row_;
      const int bits = order_.bits_;
      T** next = next_.data();
      for (int64_t i = 0; i < count; ++i) {
        T* to = next[place_of[i] >> bits]++;
        *to = value_of(i);
        __builtin_prefetch(to + kInLine<T>, /*write=*/1);  // the bucket's next line
      }
      row_ += static_cast<size_t>(count);
    }

   private:
    const Reordering& order_;
    std::vector<T*> next_;  // where the next value of each bucket belongs
    size_t row_ = 0;
  };

  /// Puts what was dealt out into its order.
  template <class T>
  void finish(const T* dealt, T* to) const {
    const size_t size = size_t{1} << bits_;
    const uint16_t* places = values_in<uint16_t>(place_in_bucket_);
    for (size_t first = 0; first < rows(); first += size) {
      size_t count = std::min(rows() - first, size);
      for (size_t i = 0; i < count; i += kInLine<T>) __builtin_prefetch(to + i, /*write=*/1);
      for (size_t i = 0; i < count; ++i) to[places[i]] = dealt[i];
      if (count < size) return;
      to += size;
      dealt += stride<T>();
      places += stride<uint16_t>();
    }
  }

 private:
  // A bucket fits into the nearest cache, and there are not too many to write to by turns, unless
  // there are millions of rows.
  static constexpr int kBitsOfBuckets = 7, kLeastBits = 11, kMostBits = 16;

  size_t buckets() const { return (rows_ >> bits_) + 1; }
  template <class T>
  size_t stride() const {
    return (size_t{1} << bits_) + kInLine<T>;
  }
  template <class T>
  static constexpr size_t kInLine = RowLayout::kLine / sizeof(T);

  const size_t rows_;
  int bits_ = 0;               // of a row's place in its bucket
  BufferPtr place_of_;         // of each row, in the result
  BufferPtr place_in_bucket_;  // of what is dealt out
};

/// The columns of batches in another order.
class ReorderedColumns {
 public:
  ReorderedColumns(const Batches& batches, std::span<const uint32_t> order)
      : batches_(batches), order_(order), rows_(order) {}

  std::shared_ptr<arrow::Array> column(int number) const {
    const auto& type = batches_.front()->schema()->field(number)->type();
    if (type->id() == arrow::Type::BOOL) return made_of(type, number, bools(number));
    if (arrow::is_base_binary_like(type->id())) return texts(number, type);
    if (!has_plain_values(*type)) return gathered(number);
    std::shared_ptr<arrow::Array> result;
    with_width(type->byte_width(),
               [&]<class T>(T) { result = made_of(type, number, numbers<T>(number)); });
    return result;
  }

 private:
  static bool has_plain_values(const arrow::DataType& type) {
    bool is_plain = arrow::is_primitive(type.id()) || arrow::is_decimal(type.id()) ||
                    type.id() == arrow::Type::FIXED_SIZE_BINARY;
    int width = is_plain ? type.byte_width() : 0;
    return width == 1 || width == 2 || width == 4 || width == 8 || width == 16;
  }

  /// The null bitmap of a column, if it has nulls.
  struct Valid {
    BufferPtr bits;
    int64_t nulls = 0;
  };

  // The values of a column: `values_of(array)` gives what gives value i of an array.
  template <class T, class ValuesOf>
  BufferPtr values(int column, const ValuesOf& values_of) const {
    auto dealt = room_for<T>(rows_.dealt_size<T>());
    Reordering::Dealing<T> dealing(rows_, values_in<T>(dealt));
    for (const auto& batch : batches_) {
      if (batch->num_rows() == 0) continue;
      dealing.add(batch->num_rows(), values_of(*batch->column(column)));
    }
    auto values = room_for<T>(rows_.rows());
    rows_.finish(values_in<T>(dealt), values_in<T>(values));
    return values;
  }

  template <class T>
  BufferPtr numbers(int column) const {
    return values<T>(column, [](const arrow::Array& array) {
      const T* values =
          reinterpret_cast<const T*>(array.data()->buffers[1]->data()) + array.offset();
      return [values](int64_t i) { return values[i]; };
    });
  }

  // Bits: `bits_of(array)` gives what gives bit i of an array, as a byte.
  template <class BitsOf>
  Valid bits(int column, const BitsOf& bits_of) const {
    auto bytes = values<uint8_t>(column, bits_of);
    const size_t rows = rows_.rows();
    const uint8_t* from = values_in<uint8_t>(bytes);
    Valid result{room_for<uint8_t>((rows + 7) / 8), static_cast<int64_t>(rows)};
    auto* to = values_in<uint8_t>(result.bits);
    for (size_t first = 0; first < rows; first += 8) {
      uint8_t eight = 0;
      for (size_t i = 0; i < std::min<size_t>(8, rows - first); ++i) {
        eight = static_cast<uint8_t>(eight | from[first + i] << i);
      }
      *to++ = eight;
      result.nulls -= std::popcount(eight);
    }
    return result;
  }

  BufferPtr bools(int column) const {
    return bits(column,
                [](const arrow::Array& array) {
                  const uint8_t* from = array.data()->buffers[1]->data();
                  return [from, offset = array.offset()](int64_t i) {
                    return static_cast<uint8_t>(arrow::bit_util::GetBit(from, offset + i));
                  };
                })
        .bits;
  }

  Valid valid(int column) const {
    bool has_nulls = std::any_of(batches_.begin(), batches_.end(), [&](const auto& batch) {
      return batch->column(column)->null_count() > 0;
    });
    if (!has_nulls) return {};
    return bits(column, [](const arrow::Array& array) {
      const uint8_t* from = array.null_count() > 0 ? array.null_bitmap_data() : nullptr;
      return [from, offset = array.offset()](int64_t i) {
        return static_cast<uint8_t>(!from || arrow::bit_util::GetBit(from, offset + i));
      };
    });
  }

  std::shared_ptr<arrow::Array> texts(int column,
                                      const std::shared_ptr<arrow::DataType>& type) const {
    auto slots = arrow::is_large_binary_like(type->id()) ? slots_of<arrow::LargeBinaryArray>(column)
                                                         : slots_of<arrow::BinaryArray>(column);
    Valid nulls = valid(column);
    return text_column(type, {values_in<TextSlot>(slots), rows_.rows()}, nulls.bits, nulls.nulls);
  }
  template <class Texts>
  BufferPtr slots_of(int column) const {
    return values<TextSlot>(column, [](const arrow::Array& array) {
      return [&texts = static_cast<const Texts&>(array)](int64_t i) {
        return TextSlot::of(texts.IsNull(i) ? std::string_view() : texts.GetView(i));
      };
    });
  }

  // Whatever its type.
  std::shared_ptr<arrow::Array> gathered(int column) const {
    Batches alone;
    for (const auto& batch : batches_) {
      alone.push_back(check(batch->SelectColumns({column}), kReordering));
    }
    auto values = concatenate(alone)->column(0);
    return gather(*values, order_, values->null_count() > 0);
  }

  std::shared_ptr<arrow::Array> made_of(const std::shared_ptr<arrow::DataType>& type, int column,
                                        BufferPtr values) const {
    Valid nulls = valid(column);
    return arrow::MakeArray(arrow::ArrayData::Make(type, static_cast<int64_t>(rows_.rows()),
                                                   {nulls.bits, std::move(values)}, nulls.nulls));
  }

  const Batches& batches_;
  const std::span<const uint32_t> order_;
  const Reordering rows_;
};

}  // namespace

std::shared_ptr<arrow::RecordBatch> reordered(const Batches& batches,
                                              std::span<const uint32_t> order) {
  const auto& schema = batches.front()->schema();
  ReorderedColumns columns(batches, order);
  Piece piece;
  piece.names = schema->field_names();
  piece.rows = static_cast<int64_t>(order.size());
  for (int i = 0; i < schema->num_fields(); ++i) {
    try {
      piece.columns.push_back(columns.column(i));
    } catch (const Error& error) {
      throw Error(error.kind(), str("column '", schema->field(i)->name(), "' of type ",
                                    schema->field(i)->type()->ToString(), ": ", error.what()));
    }
  }
  return to_batch(std::move(piece));
}

}  // namespace manta::data
