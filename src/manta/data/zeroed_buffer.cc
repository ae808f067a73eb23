#include <arrow/buffer.h>
#include <sys/mman.h>

#include <cstring>
#include <fstream>
#include <string>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/data/zeroed_buffer_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kHugePage = 2 << 20;
constexpr int64_t kLeastMapped = 2 * kHugePage;

// Whether the kernel gives large pages on request.
bool has_huge_pages() {
  std::string modes;
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::getline(file, modes);
  return modes.find("[always]") != std::string::npos ||
         modes.find("[madvise]") != std::string::npos;
}

/// Memory mapped for this buffer alone, which the kernel has zeroed.
class MappedZeros final : public arrow::MutableBuffer {
 public:
  static std::shared_ptr<arrow::Buffer> make(int64_t bytes, const char* doing) {
    auto size = static_cast<size_t>(bytes + kHugePage);  // to find a multiple of kHugePage in it
    void* mapped =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
      throw Error(ErrorKind::kResources,
                  str(doing, ": no memory for ", bytes, " bytes; ", describe_limits()));
    }
    auto place = reinterpret_cast<uintptr_t>(mapped) + kHugePage - 1;
    auto* data = reinterpret_cast<uint8_t*>(place - place % kHugePage);
    // The rest, less than a large page, stays in small ones. Advice only: it may be refused.
    ::madvise(data, static_cast<size_t>(bytes - bytes % kHugePage), MADV_HUGEPAGE);
    return std::shared_ptr<arrow::Buffer>(new MappedZeros(data, bytes, mapped, size));
  }
  ~MappedZeros() override { ::munmap(mapped_, mapped_size_); }

 private:
  MappedZeros(uint8_t* data, int64_t bytes, void* mapped, size_t mapped_size)
      : arrow::MutableBuffer(data, bytes), mapped_(mapped), mapped_size_(mapped_size) {}

  void* const mapped_;
  const size_t mapped_size_;
};

}  // namespace

std::shared_ptr<arrow::Buffer> zeroed_buffer(int64_t bytes, const char* doing) {
  static const bool kHugePages = has_huge_pages();
  if (kHugePages && bytes >= kLeastMapped) return MappedZeros::make(bytes, doing);
  // Memory that the pool kept from earlier batches takes a fifth of the time of new pages.
  std::shared_ptr<arrow::Buffer> buffer = check(arrow::AllocateBuffer(bytes), doing);
  if (bytes > 0) std::memset(buffer->mutable_data(), 0, static_cast<size_t>(bytes));
  return buffer;
}

}  // namespace manta::data
