#include <arrow/api.h>
#include <arrow/util/bitmap_ops.h>

#include "manta/data/validity_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {

std::shared_ptr<arrow::Buffer> valid_in_both(const arrow::Array& a, const arrow::Array& b) {
  constexpr const char* kDoing = "putting nulls together";
  auto* pool = arrow::default_memory_pool();
  int64_t rows = a.length();
  bool in_a = a.null_count() > 0, in_b = b.null_count() > 0 && &a != &b;
  if (in_a && in_b) {
    return check(arrow::internal::BitmapAnd(pool, a.null_bitmap_data(), a.offset(),
                                            b.null_bitmap_data(), b.offset(), rows, 0),
                 kDoing);
  }
  if (!in_a && !in_b) return nullptr;
  const arrow::Array& one = in_a ? a : b;
  return check(arrow::internal::CopyBitmap(pool, one.null_bitmap_data(), one.offset(), rows),
               kDoing);
}

}  // namespace manta::data
