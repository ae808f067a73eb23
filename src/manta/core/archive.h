#pragma once

#include <cereal/cereal.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/chrono.hpp>
#include <cereal/types/deque.hpp>
#include <cereal/types/list.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/memory.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/set.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/tuple.hpp>
#include <cereal/types/unordered_map.hpp>
#include <cereal/types/unordered_set.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/variant.hpp>
#include <cereal/types/vector.hpp>
#include <cstring>
#include <deque>
#include <list>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "manta/base/error.h"
#include "manta/core/object_id.h"
#include "manta/io/frame.h"
#include "manta/io/shared_memory.h"

namespace manta::internal {

/// Shared memory that a node of the run keeps, by its number there. Between hosts it is sent
/// instead of a descriptor.
struct MemoryKey {
  uint64_t number = 0;  ///< Never used twice in a run, on no node.
  uint64_t size = 0;
  uint32_t node = 0;  ///< That made it.
  uint32_t unused = 0;
};
static_assert(sizeof(MemoryKey) == 24);

/// The cereal archive for values and messages: it appends bytes to a string, in this machine's byte
/// order (both ends are the same build of the same binary). Large buffers, references and
/// descriptors travel beside the bytes.
class OutArchive : public cereal::OutputArchive<OutArchive, cereal::AllowEmptyClassElision> {
 public:
  explicit OutArchive(std::string& to) : OutputArchive(this), to_(to) {}
  void write(const void* data, size_t size) { to_.append(static_cast<const char*>(data), size); }

  /// Where values put their large buffers; created when the first value needs it.
  SharedMemoryWriter& large_buffers() {
    if (!large_buffers_) large_buffers_ = std::make_unique<SharedMemoryWriter>();
    return *large_buffers_;
  }
  bool has_large_buffers() const { return large_buffers_ != nullptr; }

  std::vector<ObjectId> refs;   ///< References inside the value.
  std::vector<OutgoingFd> fds;  ///< Descriptors of the message.
  /// Not null: the message is for another host, and these keys take the place of descriptors.
  std::vector<MemoryKey>* keys = nullptr;

 private:
  std::string& to_;
  std::unique_ptr<SharedMemoryWriter> large_buffers_;
};

/// Reads what OutArchive wrote. Throws Error(kCorrupt) instead of reading past the end.
class InArchive : public cereal::InputArchive<InArchive, cereal::AllowEmptyClassElision> {
 public:
  explicit InArchive(std::string_view from) : InputArchive(this), from_(from) {}

  void read(void* data, size_t size) {
    if (size > from_.size()) {
      throw Error(ErrorKind::kCorrupt,
                  str("a serialised value ends early: ", size, " more bytes expected, ",
                      from_.size(), " left; do save() and load() of its type match?"));
    }
    if (size == 0) return;  // an empty container has no memory to read into
    std::memcpy(data, from_.data(), size);
    from_.remove_prefix(size);
  }
  /// Keeps a damaged length from causing a huge allocation. An element takes at least one byte,
  /// unless it is empty.
  void check_length(uint64_t length) const {
    if (length > from_.size() + 65536) {
      throw Error(ErrorKind::kCorrupt, str("a serialised container claims ", length,
                                           " elements with ", from_.size(), " bytes left"));
    }
  }
  /// The number of elements in a container whose elements take at least `bytes` each.
  uint64_t read_length(size_t bytes = 0) {
    uint64_t length = 0;
    read(&length, sizeof(length));
    check_length(length);
    if (bytes > 0 && length > from_.size() / bytes) {
      throw Error(ErrorKind::kCorrupt, str("a serialised container claims ", length,
                                           " elements with ", from_.size(), " bytes left"));
    }
    return length;
  }
  size_t remaining() const { return from_.size(); }

  std::shared_ptr<SharedMemory> large_buffers;  ///< Of the value being read.
  std::vector<UniqueFd> fds;                    ///< Of the message being read; taken in order.
  size_t next_fd = 0;
  std::vector<MemoryKey> keys;  ///< Instead of descriptors, if it came from another host.
  size_t next_key = 0;

 private:
  std::string_view from_;
};

template <class T>
requires std::is_arithmetic_v<T>
void CEREAL_SAVE_FUNCTION_NAME(OutArchive& archive, const T& value) {
  archive.write(&value, sizeof(value));
}
template <class T>
requires std::is_arithmetic_v<T>
void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    uint8_t byte = 0;
    archive.read(&byte, 1);
    if (byte > 1) throw Error(ErrorKind::kCorrupt, "a serialised bool is neither 0 nor 1");
    value = byte == 1;
  } else {
    archive.read(&value, sizeof(value));
  }
}
template <class T>
void CEREAL_SERIALIZE_FUNCTION_NAME(OutArchive& archive, cereal::NameValuePair<T>& pair) {
  archive(pair.value);
}
template <class T>
void CEREAL_SERIALIZE_FUNCTION_NAME(InArchive& archive, cereal::NameValuePair<T>& pair) {
  archive(pair.value);
}
template <class T>
void CEREAL_SAVE_FUNCTION_NAME(OutArchive& archive, const cereal::SizeTag<T>& tag) {
  uint64_t size = tag.size;
  archive.write(&size, sizeof(size));
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive, cereal::SizeTag<T>& tag) {
  uint64_t size = 0;
  archive.read(&size, sizeof(size));
  archive.check_length(size);
  tag.size = static_cast<std::decay_t<T>>(size);
}

// These replace cereal's own functions for sequences, which allocate as many elements as the bytes
// claim before they read one: a false length of a few million large elements would use up the
// memory.
template <class Sequence>
void load_elements(InArchive& archive, Sequence& values) {
  values.clear();
  for (uint64_t left = archive.read_length(); left > 0; --left) archive(values.emplace_back());
}
template <class T, class A>
requires(!std::is_same_v<T, bool>) void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive,
                                                                  std::vector<T, A>& values) {
  if constexpr (std::is_arithmetic_v<T>) {
    values.resize(archive.read_length(sizeof(T)));
    archive.read(values.data(), values.size() * sizeof(T));
  } else {
    load_elements(archive, values);
  }
}
template <class T, class A>
void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive, std::deque<T, A>& values) {
  load_elements(archive, values);
}
template <class T, class A>
void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive, std::list<T, A>& values) {
  load_elements(archive, values);
}

template <class T>
void CEREAL_SAVE_FUNCTION_NAME(OutArchive& archive, const cereal::BinaryData<T>& data) {
  archive.write(data.data, static_cast<size_t>(data.size));
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive, cereal::BinaryData<T>& data) {
  archive.read(data.data, static_cast<size_t>(data.size));
}

/// Reads one value. Turns cereal's own exceptions into an Error.
template <class T>
void read_value(InArchive& archive, T& value) {
  try {
    archive(value);
  } catch (const cereal::Exception& error) {
    throw Error(ErrorKind::kCorrupt, str("reading a serialised value: ", error.what()));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kResources, "no memory is left for a serialised value");
  }
}

}  // namespace manta::internal

CEREAL_REGISTER_ARCHIVE(manta::internal::OutArchive)
CEREAL_REGISTER_ARCHIVE(manta::internal::InArchive)
CEREAL_SETUP_ARCHIVE_TRAITS(manta::internal::InArchive, manta::internal::OutArchive)
