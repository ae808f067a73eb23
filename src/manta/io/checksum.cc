#include <fcntl.h>

#include <cerrno>
#include <cstdio>

#include "manta/io/checksum_internal.h"

#define XXH_INLINE_ALL
#include <arrow/vendored/xxhash.h>

#include "manta/base/error_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {

struct Checksum::State {
  XXH3_state_t xxh;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh); }
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::add(const void* data, size_t size) {
  if (size > 0) XXH3_64bits_update(&state_->xxh, data, size);
}

std::string Checksum::hex() const {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits_digest(&state_->xxh)));
  return text;
}

FileDigest digest_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw_errno(str("opening '", path, "'"));
  return digest_file(fd.get(), path);
}

FileDigest digest_file(int fd, const std::string& path) {
  constexpr size_t kPiece = 1 << 20;
  auto buffer = std::make_unique<char[]>(kPiece);
  Checksum checksum;
  FileDigest digest;
  for (;;) {
    ssize_t got = ::read(fd, buffer.get(), kPiece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(str("reading '", path, "'"));
    if (got == 0) break;
    checksum.add(buffer.get(), static_cast<size_t>(got));
    digest.size += static_cast<uint64_t>(got);
  }
  digest.checksum = checksum.hex();
  return digest;
}

}  // namespace manta
