#include "manta/data/zeroed_buffer_internal.h"
#include "manta/preprocess/vectors_internal.h"

namespace manta::preprocess {

std::shared_ptr<arrow::Buffer> zeros(int64_t bytes) {
  return data::zeroed_buffer(bytes, "making a column of vectors");
}

}  // namespace manta::preprocess
