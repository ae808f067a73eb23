#include "manta/torch/torch_batches.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/bit_util.h>

#include <limits>

#include "manta/data/shard_internal.h"

namespace manta {
namespace {

std::string type_name(torch::Dtype dtype) { return c10::toString(dtype); }

template <class To, class From>
void copy_values(const From* from, int64_t rows, To* to, int64_t stride) {
  for (int64_t i = 0; i < rows; ++i) to[i * stride] = static_cast<To>(from[i]);
}

template <class To>
void copy_bits(const uint8_t* bits, int64_t offset, int64_t rows, To* to, int64_t stride) {
  for (int64_t i = 0; i < rows; ++i) {
    to[i * stride] = static_cast<To>(arrow::bit_util::GetBit(bits, offset + i));
  }
}

template <class To>
void mark_nulls(const arrow::Array& array, int64_t offset, int64_t rows, To* to, int64_t stride,
                const std::string& name) {
  for (int64_t i = 0; i < rows; ++i) {
    if (array.IsValid(offset + i)) continue;
    if constexpr (std::numeric_limits<To>::has_quiet_NaN) {
      to[i * stride] = std::numeric_limits<To>::quiet_NaN();
    } else {
      throw Error(ErrorKind::kInvalidArgument,
                  str("column '", name,
                      "' has a null, which an integer tensor cannot hold: use "
                      "drop_na(), or a floating-point dtype"));
    }
  }
}

// `rows` values of a column, from `offset` on, to every `stride`-th place.
template <class To>
void copy_column(const arrow::Array& array, int64_t offset, int64_t rows, To* to, int64_t stride,
                 const std::string& name) {
  const auto& data = *array.data();
  int64_t at = data.offset + offset;
  auto values = [&]<class From>(From) {
    copy_values(reinterpret_cast<const From*>(data.buffers[1]->data()) + at, rows, to, stride);
  };
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      copy_bits(data.buffers[1]->data(), at, rows, to, stride);
      break;
    case arrow::Type::INT8:
      values(int8_t());
      break;
    case arrow::Type::INT16:
      values(int16_t());
      break;
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
    case arrow::Type::TIME32:
      values(int32_t());
      break;
    case arrow::Type::INT64:
    case arrow::Type::DATE64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DURATION:
      values(int64_t());
      break;
    case arrow::Type::UINT8:
      values(uint8_t());
      break;
    case arrow::Type::UINT16:
      values(uint16_t());
      break;
    case arrow::Type::UINT32:
      values(uint32_t());
      break;
    case arrow::Type::UINT64:
      values(uint64_t());
      break;
    case arrow::Type::FLOAT:
      values(float());
      break;
    case arrow::Type::DOUBLE:
      values(double());
      break;
    default:
      throw Error(ErrorKind::kInvalidArgument,
                  str("column '", name, "' is of type ", array.type()->ToString(),
                      ", which is no tensor's: turn it into numbers first, e.g. with map_batches"));
  }
  if (array.null_count() > 0) mark_nulls(array, offset, rows, to, stride, name);
}

}  // namespace

TorchBatch::TorchBatch(std::shared_ptr<arrow::RecordBatch> batch, torch::Dtype dtype)
    : rows_(batch->num_rows()), dtype_(dtype) {
  pieces_.push_back({std::move(batch), 0, rows_});
}

void TorchBatch::fill(const std::vector<std::string>& names, torch::Tensor& result) const {
  auto stride = static_cast<int64_t>(names.size());
  for (int64_t column = 0; column < stride; ++column) {
    const std::string& name = names[static_cast<size_t>(column)];
    int64_t row = 0;
    for (const auto& piece : pieces_) {
      int index = piece.batch->schema()->GetFieldIndex(name);
      if (index < 0) {
        std::string there;
        for (const auto& field : piece.batch->schema()->fields()) {
          there += (there.empty() ? "" : ", ") + field->name();
        }
        throw Error(ErrorKind::kNotFound,
                    str("a batch has no column '", name, "'; it has: ", there));
      }
      const auto& array = *piece.batch->column(index);
      auto copy = [&]<class To>(To*) {
        copy_column(array, piece.offset, piece.rows, result.data_ptr<To>() + row * stride + column,
                    stride, name);
      };
      switch (result.scalar_type()) {
        case torch::kFloat32:
          copy(static_cast<float*>(nullptr));
          break;
        case torch::kFloat64:
          copy(static_cast<double*>(nullptr));
          break;
        case torch::kInt64:
          copy(static_cast<int64_t*>(nullptr));
          break;
        case torch::kInt32:
          copy(static_cast<int32_t*>(nullptr));
          break;
        case torch::kUInt8:
          copy(static_cast<uint8_t*>(nullptr));
          break;
        case torch::kBool:
          copy(static_cast<bool*>(nullptr));
          break;
        default:
          throw Error(ErrorKind::kInvalidArgument,
                      str("batches cannot be made of dtype ", type_name(result.scalar_type()),
                          "; use Float, Double, Long, Int, Byte or Bool"));
      }
      row += piece.rows;
    }
  }
}

torch::Tensor TorchBatch::column(const std::string& name, torch::Dtype dtype) const {
  auto result = torch::empty({rows_}, dtype);
  fill({name}, result);
  return result;
}

torch::Tensor TorchBatch::operator[](const std::string& name) const { return column(name, dtype_); }

torch::Tensor TorchBatch::columns(const std::vector<std::string>& names) const {
  auto result = torch::empty({rows_, static_cast<int64_t>(names.size())}, dtype_);
  fill(names, result);
  return result;
}

bool TorchBatches::advance() {
  data::StepSlice slice;
  batch_.pieces_.clear();
  if (!pass_->next(&slice)) return false;
  for (auto& piece : slice.pieces) {
    batch_.pieces_.push_back({std::move(piece.batch), piece.offset, piece.rows});
  }
  batch_.rows_ = slice.rows;
  batch_.first_row_ = slice.first_row;
  batch_.dtype_ = dtype_;
  return true;
}

TorchBatches DataShard::iter_torch_batches(const TorchBatchOptions& options) const {
  ShardBatchOptions shard{options.batch_size, options.global_batch_size, options.drop_last};
  return TorchBatches(std::make_shared<data::ShardPass>(state_, shard), options.dtype);
}

TorchBatches DataShard::iter_torch_batches() const {
  return iter_torch_batches(TorchBatchOptions());
}

}  // namespace manta
