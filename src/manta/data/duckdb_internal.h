#pragma once

#include <cstdint>

/// The part of DuckDB's C API that we call. libduckdb.so is not linked, because it exports 58,000
/// symbols, among them Brotli's and ICU's. The first wide operation loads it with hidden names.
/// Loading it starts no thread.
namespace manta::data {

/// The opaque types that the functions take.
namespace duck {

struct Handle;
using Database = Handle*;
using Connection = Handle*;
using Config = Handle*;
using Prepared = Handle*;
using Pending = Handle*;
using Chunk = Handle*;
using Vector = Handle*;
using LogicalType = Handle*;
using TableFunction = Handle*;
using BindInfo = Handle*;
using InitInfo = Handle*;
using FunctionInfo = Handle*;

struct Result {
  uint64_t column_count, row_count, rows_changed;
  void* columns;
  char* error_message;
  void* internal;
};

/// Text or bytes: up to 12 in place, more behind a pointer.
struct String {
  union {
    struct {
      uint32_t length;
      char prefix[4];
      const char* data;
    } pointer;
    struct {
      uint32_t length;
      char data[12];
    } in_place;
  };
};

struct ListEntry {
  uint64_t offset, length;
};

enum State : int { kSuccess = 0, kError = 1 };
enum PendingState : int { kResultReady = 0, kResultNotReady = 1, kFailed = 2, kNoTasks = 3 };
enum TypeId : int {
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUInt8 = 6,
  kUInt16 = 7,
  kUInt32 = 8,
  kUInt64 = 9,
  kFloat64 = 11,
  kInt128 = 16,
  kBlob = 18,
};

using OnBind = void (*)(BindInfo);
using OnInit = void (*)(InitInfo);
using OnCall = void (*)(FunctionInfo, Chunk);
using OnDestroy = void (*)(void*);

}  // namespace duck

/// Each line: result, name after "duckdb_", parameters.
#define MANTA_DUCKDB_FUNCTIONS(X)                                                            \
  X(const char*, library_version, ())                                                        \
  X(duck::State, create_config, (duck::Config*))                                             \
  X(duck::State, set_config, (duck::Config, const char*, const char*))                       \
  X(void, destroy_config, (duck::Config*))                                                   \
  X(duck::State, open_ext, (const char*, duck::Database*, duck::Config, char**))             \
  X(void, close, (duck::Database*))                                                          \
  X(duck::State, connect, (duck::Database, duck::Connection*))                               \
  X(void, disconnect, (duck::Connection*))                                                   \
  X(void, interrupt, (duck::Connection))                                                     \
  X(void, free, (void*))                                                                     \
  X(duck::LogicalType, create_logical_type, (duck::TypeId))                                  \
  X(void, destroy_logical_type, (duck::LogicalType*))                                        \
  X(duck::TableFunction, create_table_function, ())                                          \
  X(void, destroy_table_function, (duck::TableFunction*))                                    \
  X(void, table_function_set_name, (duck::TableFunction, const char*))                       \
  X(void, table_function_set_extra_info, (duck::TableFunction, void*, duck::OnDestroy))      \
  X(void, table_function_set_bind, (duck::TableFunction, duck::OnBind))                      \
  X(void, table_function_set_init, (duck::TableFunction, duck::OnInit))                      \
  X(void, table_function_set_function, (duck::TableFunction, duck::OnCall))                  \
  X(duck::State, register_table_function, (duck::Connection, duck::TableFunction))           \
  X(void*, bind_get_extra_info, (duck::BindInfo))                                            \
  X(void, bind_add_result_column, (duck::BindInfo, const char*, duck::LogicalType))          \
  X(void, bind_set_cardinality, (duck::BindInfo, uint64_t, bool))                            \
  X(void*, init_get_extra_info, (duck::InitInfo))                                            \
  X(void, init_set_max_threads, (duck::InitInfo, uint64_t))                                  \
  X(void*, function_get_extra_info, (duck::FunctionInfo))                                    \
  X(void, function_set_error, (duck::FunctionInfo, const char*))                             \
  X(uint64_t, vector_size, ())                                                               \
  X(duck::Vector, data_chunk_get_vector, (duck::Chunk, uint64_t))                            \
  X(uint64_t, data_chunk_get_size, (duck::Chunk))                                            \
  X(void, data_chunk_set_size, (duck::Chunk, uint64_t))                                      \
  X(void, destroy_data_chunk, (duck::Chunk*))                                                \
  X(void*, vector_get_data, (duck::Vector))                                                  \
  X(uint64_t*, vector_get_validity, (duck::Vector))                                          \
  X(void, vector_ensure_validity_writable, (duck::Vector))                                   \
  X(void, vector_assign_string_element_len, (duck::Vector, uint64_t, const char*, uint64_t)) \
  X(duck::Vector, list_vector_get_child, (duck::Vector))                                     \
  X(duck::State, prepare, (duck::Connection, const char*, duck::Prepared*))                  \
  X(const char*, prepare_error, (duck::Prepared))                                            \
  X(void, destroy_prepare, (duck::Prepared*))                                                \
  X(duck::State, pending_prepared_streaming, (duck::Prepared, duck::Pending*))               \
  X(duck::PendingState, pending_execute_task, (duck::Pending))                               \
  X(const char*, pending_error, (duck::Pending))                                             \
  X(duck::State, execute_pending, (duck::Pending, duck::Result*))                            \
  X(void, destroy_pending, (duck::Pending*))                                                 \
  X(const char*, result_error, (duck::Result*))                                              \
  X(duck::Chunk, fetch_chunk, (duck::Result))                                                \
  X(void, destroy_result, (duck::Result*))

struct DuckDb {
#define X(result, name, parameters) result(*name) parameters = nullptr;
  MANTA_DUCKDB_FUNCTIONS(X)
#undef X
};

/// Loads the library once. Throws Error(kNotFound) that says where it was looked for, or
/// Error(kResources) if there is no room for it.
const DuckDb& duckdb();

/// Throws Error(kResources) if less address space is free than the library needs to begin:
/// otherwise its allocator crashes the process (SIGSEGV) when it gets no memory for its own tables.
void require_room_for_duckdb();

}  // namespace manta::data
