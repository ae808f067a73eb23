#include "manta/base/error_internal.h"
#include "manta/data/zeroed_buffer_internal.h"
#include "manta/preprocess/numbers_internal.h"
#include "manta/preprocess/vectors_internal.h"

namespace manta::preprocess {

std::shared_ptr<arrow::Buffer> zeros(int64_t bytes) {
  return data::zeroed_buffer(bytes, "making a column of vectors");
}

std::shared_ptr<arrow::Buffer> list_offsets(int64_t width, int64_t rows) {
  if (width > 0 && rows > INT32_MAX / width) {
    throw Error(ErrorKind::kInvalidArgument,
                str("lists of ", width, " numbers in ", rows,
                    " rows are more than a batch can hold; read with a smaller batch_size"));
  }
  auto buffer = new_buffer((rows + 1) * 4);
  auto* ends = reinterpret_cast<int32_t*>(buffer->mutable_data());
  for (int64_t row = 0; row <= rows; ++row) ends[row] = static_cast<int32_t>(row * width);
  return buffer;
}

}  // namespace manta::preprocess
