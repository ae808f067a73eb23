#include <arrow/buffer.h>
#include <sys/mman.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/data/slab_memory_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kSlabBytes = 16 << 20;
constexpr int64_t kBlockAlignment = 64;
constexpr int64_t kReadyBytes = 1 << 20;  // much less than a slab: few rows take few pages

class Slab final : public arrow::MutableBuffer {
 public:
  Slab(uint8_t* data, int64_t bytes) : arrow::MutableBuffer(data, bytes) {}
  ~Slab() override { ::munmap(mutable_data(), static_cast<size_t>(size())); }
};

std::shared_ptr<arrow::Buffer> make_slab(int64_t bytes, const char* doing) {
  void* mapped = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    throw Error(ErrorKind::kResources,
                str(doing, ": no memory for ", bytes, " bytes; ", describe_limits()));
  }
  // Only advice: everything works without it, too.
  ::madvise(mapped, static_cast<size_t>(bytes), MADV_NOHUGEPAGE);
  return std::make_shared<Slab>(static_cast<uint8_t*>(mapped), bytes);
}

}  // namespace

std::shared_ptr<arrow::Buffer> SlabMemory::take(int64_t bytes, const char* doing) {
  if (!slab_ || slab_->size() - used_ < bytes) {
    slab_ = make_slab(std::max(bytes, kSlabBytes), doing);
    used_ = ready_ = 0;
  }
  if (used_ + bytes > ready_) {
    int64_t end =
        std::min((used_ + bytes + kReadyBytes - 1) / kReadyBytes * kReadyBytes, slab_->size());
    // Only advice, which older kernels do not know.
    ::madvise(slab_->mutable_data() + ready_, static_cast<size_t>(end - ready_),
              MADV_POPULATE_WRITE);
    ready_ = end;
  }
  auto block = arrow::SliceMutableBuffer(slab_, used_, bytes);
  used_ += (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  return block;
}

}  // namespace manta::data
