#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/data/duckdb_internal.h"

namespace manta::data {
namespace {

// Loaded by name: the linker has put the library's folder, which set-up made, into the program's
// RPATH.
constexpr char kDuckDbLibrary[] = "libduckdb.so";

// The library finds its own symbols first, so that it uses neither Arrow's nor libtorch's
// libraries. The sanitizers do not allow that; its names are hidden from others even so.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kHowToLoad = RTLD_NOW | RTLD_LOCAL;
#elif defined(__has_feature)  // clang says it in another way
constexpr int kHowToLoad =
    RTLD_NOW | RTLD_LOCAL |
    (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ? 0 : RTLD_DEEPBIND);
#else
constexpr int kHowToLoad = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

[[noreturn]] void throw_no_duckdb() {
  const char* why = ::dlerror();
  throw Error(ErrorKind::kNotFound,
              str("sort, random_shuffle, groupby, join and their kin need ", kDuckDbLibrary,
                  " of DuckDB 1.5: ", why ? why : "it cannot be loaded",
                  "; run scripts/setup.sh, or link the program with the CMake package of Manta"));
}

// About the address space of the library itself, of its allocator and of a few threads at first.
constexpr size_t kRoomToLoad = size_t{96} << 20;
constexpr size_t kRoomToRun = size_t{128} << 20;

// Throws if this many bytes cannot be mapped, under `ulimit -v` for example.
void require_room(size_t bytes) {
  void* probe =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (probe == MAP_FAILED) {
    throw Error(
        ErrorKind::kResources,
        str("sort, random_shuffle, groupby, join and their kin run on DuckDB, for which ",
            bytes >> 20, " MiB of address space are needed and not free; ", describe_limits()));
  }
  ::munmap(probe, bytes);
}

// Where the program or library that this is part of looks for libraries (its RUNPATH).
std::vector<std::string> library_folders() {
  Dl_info ignored{};
  link_map* self = nullptr;
  Dl_serinfo size{};
  if (!::dladdr1(reinterpret_cast<void*>(&throw_no_duckdb), &ignored,
                 reinterpret_cast<void**>(&self), RTLD_DL_LINKMAP) ||
      ::dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) {
    return {};
  }
  std::vector<uint64_t> memory(size.dls_size / sizeof(uint64_t) + 1);
  auto* info = reinterpret_cast<Dl_serinfo*>(memory.data());
  info->dls_size = size.dls_size;
  info->dls_cnt = size.dls_cnt;
  if (::dlinfo(self, RTLD_DI_SERINFO, info) != 0) return {};
  std::vector<std::string> folders;
  for (unsigned i = 0; i < info->dls_cnt; ++i) folders.emplace_back(info->dls_serpath[i].dls_name);
  return folders;
}

void* open_duckdb() {
  if (void* library = ::dlopen(kDuckDbLibrary, kHowToLoad)) return library;
  // A sanitizer's dlopen searches the folders of the sanitizer's own library.
  for (const auto& folder : library_folders()) {
    if (void* library = ::dlopen((folder + "/" + kDuckDbLibrary).c_str(), kHowToLoad))
      return library;
  }
  return ::dlopen(kDuckDbLibrary, kHowToLoad);  // to get its error
}

DuckDb load_duckdb() {
  require_room(kRoomToLoad + kRoomToRun);
  void* library = open_duckdb();
  if (!library) throw_no_duckdb();
  DuckDb loaded;
#define X(result, name, parameters)                                                        \
  loaded.name = reinterpret_cast<result(*) parameters>(::dlsym(library, "duckdb_" #name)); \
  if (!loaded.name) throw_no_duckdb();
  MANTA_DUCKDB_FUNCTIONS(X)
#undef X
  return loaded;
}

}  // namespace

void require_room_for_duckdb() { require_room(kRoomToRun); }

const DuckDb& duckdb() {
  static const DuckDb loaded = load_duckdb();
  return loaded;
}

}  // namespace manta::data
