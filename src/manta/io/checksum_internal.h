#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace manta {

/// XXH3-64 over bytes that come in parts. It detects accidental damage, not intentional changes.
/// Several times faster than a disk.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;

  void add(const void* data, size_t size);
  /// The checksum of everything added so far, as xxhsum -H3 prints it: 16 hexadecimal digits.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct FileDigest {
  uint64_t size = 0;
  std::string checksum;  ///< As Checksum::hex.
};

/// Reads the whole file. Throws Error(kIo) naming it.
FileDigest digest_file(const std::string& path);
/// Reads an open file from its descriptor's offset to the end; `path` is for messages.
FileDigest digest_file(int fd, const std::string& path);

}  // namespace manta
