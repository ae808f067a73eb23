#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "manta/core/archive.h"

namespace arrow {
class Buffer;
class RecordBatch;
class Table;
}  // namespace arrow

namespace manta::internal {

class LocatedMemory;

/// Anything larger is sent through shared memory instead of sockets.
inline constexpr size_t kLargeBuffer = 100 * 1000;

/// A serialised value: small parts inline, everything large in one shared-memory region that every
/// process maps.
struct Value {
  std::string inline_body;  ///< The bytes, unless they are large.
  std::shared_ptr<SharedMemory>
      memory;  ///< Large buffers, then the bytes if they are large. Null if neither.
  /// In the hub of a run on several nodes: the nodes that have the memory. `memory` is null unless
  /// this node has it, too.
  std::shared_ptr<LocatedMemory> located;
  uint64_t body_offset = 0,
           body_size = 0;      ///< Of the bytes in `memory`; size 0 if they are inline.
  std::vector<ObjectId> refs;  ///< References inside, kept alive with the value.

  std::string_view body() const {
    if (body_size == 0) return inline_body;
    return {reinterpret_cast<const char*>(memory->data()) + body_offset, body_size};
  }

  void save(OutArchive& archive) const;
  void load(InArchive& archive);
};

/// Completes the value written to `archive`: moves `body` to shared memory if it is large.
Value finish_value(std::string body, OutArchive& archive);

// Arrow data is written once, to shared memory if it is large, and read in place: the columns that
// the reader sees are the shared pages. A null pointer stays null.
void CEREAL_SAVE_FUNCTION_NAME(OutArchive& archive, const std::shared_ptr<arrow::Table>& table);
void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive, std::shared_ptr<arrow::Table>& table);
void CEREAL_SAVE_FUNCTION_NAME(OutArchive& archive,
                               const std::shared_ptr<arrow::RecordBatch>& batch);
void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive, std::shared_ptr<arrow::RecordBatch>& batch);
void CEREAL_SAVE_FUNCTION_NAME(OutArchive& archive, const std::shared_ptr<arrow::Buffer>& buffer);
void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive, std::shared_ptr<arrow::Buffer>& buffer);

/// True if a T can be written in one process and read in another.
template <class T>
inline constexpr bool is_serializable =
    cereal::traits::is_output_serializable<T, OutArchive>::value&&
        cereal::traits::is_input_serializable<T, InArchive>::value &&
    !std::is_pointer_v<T>;

template <class T>
void require_serializable() {
  static_assert(std::is_default_constructible_v<T>,
                "manta: a type that travels to another process needs a default constructor, to be "
                "read into there");
  static_assert(is_serializable<T>,
                "manta: this type cannot travel to another process. Give it a member `template "
                "<class Archive> void "
                "serialize(Archive& archive) { archive(every, member); }` (see cereal), or pass "
                "another type. "
                "Pointers and references to live objects never travel.");
}

template <class T>
Value to_value(const T& value) {
  require_serializable<T>();
  std::string body;
  OutArchive archive(body);
  archive(value);
  return finish_value(std::move(body), archive);
}

template <class T>
T from_value(const Value& value) {
  require_serializable<T>();
  InArchive archive(value.body());
  archive.large_buffers = value.memory;
  T result;
  read_value(archive, result);
  return result;
}

}  // namespace manta::internal

namespace manta::detail {
using namespace internal;
}
