#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace manta {

/// XXH3-64 over bytes that come in pieces: finds damage by accident, not by intent. Several times
/// faster than a disk.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;

  void add(const void* data, size_t size);
  /// Of everything added until now, as xxhsum -H3 prints it: 16 hexadecimal digits.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct FileDigest {
  uint64_t size = 0;
  std::string checksum;  ///< As Checksum::hex.
};

/// Reads all of a file. Throws Error(kIo) naming it.
FileDigest digest_file(const std::string& path);
/// Reads an open file from where its descriptor stands to its end; `path` is for messages.
FileDigest digest_file(int fd, const std::string& path);

}  // namespace manta
