#include <ATen/Parallel.h>
#include <sys/mman.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/torch/staging_internal.h"

namespace manta::detail {
namespace {

constexpr size_t kGranularity = size_t{2} << 20;
constexpr size_t kChunk = size_t{4} << 20;
constexpr size_t kBytesPerThread = size_t{32} << 20;  // less is not worth starting a thread

// Aligned to huge pages and made of them where the kernel has some: touching a fresh gigabyte takes
// 512 faults instead of 262,144. `size` is a multiple of kGranularity, the size of a huge page.
char* map_memory(size_t size) {
  size_t mapped = size + kGranularity;
  void* data = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    throw Error(ErrorKind::kResources, str("no memory for ", size,
                                           " bytes into which a checkpoint is copied before it is "
                                           "written"));
  }
  char* begin = static_cast<char*>(data);
  size_t head = (kGranularity - reinterpret_cast<uintptr_t>(begin) % kGranularity) % kGranularity;
  if (head > 0) ::munmap(begin, head);
  ::munmap(begin + head + size, mapped - head - size);
  ::madvise(begin + head, size, MADV_HUGEPAGE);  // only advice: everything works without it
  return begin + head;
}

size_t rounded(size_t size) {
  return std::max<size_t>(1, (size + kGranularity - 1) / kGranularity) * kGranularity;
}

constexpr size_t kPage = 4096;

#if defined(__SSE2__)
constexpr size_t kLine = 64;

void copy_line(char* to, const char* from) {
  for (size_t i = 0; i < kLine; i += sizeof(__m128i)) {
    __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), part);
  }
}

// Bypasses the caches, which would read memory that is about to be overwritten. It takes a third
// less time than memcpy, which bypasses them only above three quarters of the cache's size. Writing
// four pages in turn keeps the memory busy. `to` is a multiple of 16.
void copy_memory(char* to, const char* from, size_t size) {
  size_t done = 0;
  for (; done + 4 * kPage <= size; done += 4 * kPage) {
    for (size_t line = 0; line < kPage; line += kLine) {
      for (size_t page = 0; page < 4 * kPage; page += kPage) {
        copy_line(to + done + page + line, from + done + page + line);
      }
    }
  }
  _mm_sfence();
  std::memcpy(to + done, from + done, size - done);
}
#else
void copy_memory(char* to, const char* from, size_t size) { std::memcpy(to, from, size); }
#endif

}  // namespace

StagingPool& StagingPool::instance() {
  static auto* pool = new StagingPool;  // outlives every background thread
  return *pool;
}

StagingPool::~StagingPool() {
  for (auto& [size, data] : free_) ::munmap(data, size);
}

StagingPool::Buffer& StagingPool::Buffer::operator=(Buffer&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

StagingPool::Buffer::~Buffer() {
  if (pool_) pool_->release(data_, capacity_);
}

StagingPool::Buffer StagingPool::acquire(size_t size) {
  size = rounded(size);
  std::lock_guard lock(mutex_);
  auto found =
      std::lower_bound(free_.begin(), free_.end(), std::pair<size_t, char*>(size, nullptr));
  if (found != free_.end()) {
    Buffer buffer(this, found->second, found->first);
    free_.erase(found);
    return buffer;
  }
  for (auto& [capacity, data] : free_) ::munmap(data, capacity);
  free_.clear();
  return Buffer(this, map_memory(size), size);
}

void StagingPool::prepare(size_t size, const std::stop_token& stop) {
  size = rounded(size);
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty() && free_.back().first >= size) return;
  }
  char* data = nullptr;
  try {
    data = map_memory(size);
  } catch (const Error&) {  // the code that needs the memory reports it
    return;
  }
  for (size_t done = 0; done < size; done += kPage) {
    if (stop.stop_requested()) {
      ::munmap(data, size);
      return;
    }
    static_cast<volatile char*>(data)[done] = 0;
  }
  release(data, size);
}

size_t StagingPool::free_bytes() const {
  std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (auto& [size, data] : free_) bytes += size;
  return bytes;
}

void StagingPool::release(char* data, size_t capacity) {
  std::lock_guard lock(mutex_);
  std::pair<size_t, char*> item(capacity, data);
  free_.insert(std::lower_bound(free_.begin(), free_.end(), item), item);
}

SpareBuffer::SpareBuffer(StagingPool& pool, size_t size, std::chrono::milliseconds patience) {
  auto wait_and_prepare = [&pool, size, patience](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop, patience, [] { return false; });
    if (!stop.stop_requested()) pool.prepare(size, stop);
  };
  try {
    thread_ = std::jthread(wait_and_prepare);
  } catch (const std::system_error&) {  // no more threads: the next checkpoint holds up the loop
  }
}

void copy_staged(const std::vector<StagedCopy>& copies) {
  std::vector<StagedCopy> chunks;
  for (const StagedCopy& copy : copies) {
    for (size_t done = 0; done < copy.size; done += kChunk) {
      chunks.push_back({static_cast<const char*>(copy.from) + done, copy.to + done,
                        std::min(kChunk, copy.size - done)});
    }
  }
  size_t total = 0;
  for (const StagedCopy& copy : copies) total += copy.size;
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < chunks.size(); i = next++) {
      copy_memory(chunks[i].to, static_cast<const char*>(chunks[i].from), chunks[i].size);
    }
  };
  // Does not use at::parallel_for, which is not parallel if the compiler has no OpenMP.
  size_t wanted = std::min(static_cast<size_t>(at::get_num_threads()), total / kBytesPerThread);
  std::vector<std::jthread> others;
  try {
    for (size_t i = 1; i < wanted; ++i) others.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads: the existing ones do all the work
  }
  work();
}

}  // namespace manta::detail
