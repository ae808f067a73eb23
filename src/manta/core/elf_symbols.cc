#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/core/elf_symbols_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {
namespace {

// A file in memory.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat info {};
    if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) return;
    size_ = static_cast<size_t>(info.st_size);
    void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (mapped != MAP_FAILED) bytes_ = static_cast<const char*>(mapped);
  }
  ~MappedFile() {
    if (bytes_) ::munmap(const_cast<char*>(bytes_), size_);
  }
  MappedFile(const MappedFile&) = delete;

  /// `count` objects at `offset`; null if the file does not have them there.
  template <class T>
  const T* at(uint64_t offset, uint64_t count) const {
    bool fits = bytes_ && offset % alignof(T) == 0 && offset <= size_ &&
                count <= (size_ - offset) / sizeof(T);
    return fits ? reinterpret_cast<const T*>(bytes_ + offset) : nullptr;
  }

 private:
  const char* bytes_ = nullptr;
  size_t size_ = 0;
};

}  // namespace

bool visit_functions(const std::string& path, uint32_t type,
                     const std::function<bool(const FunctionSymbol&)>& visit) {
  MappedFile file(path);
  auto* elf = file.at<ElfW(Ehdr)>(0, 1);
  if (!elf || std::memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0) return false;
  auto* sections = file.at<ElfW(Shdr)>(elf->e_shoff, elf->e_shnum);
  if (!sections) return false;
  bool found = false;
  for (int i = 0; i < elf->e_shnum; ++i) {
    const auto& table = sections[i];
    if (table.sh_type != type || table.sh_link >= elf->e_shnum) continue;
    uint64_t count = table.sh_size / sizeof(ElfW(Sym));
    auto* symbols = file.at<ElfW(Sym)>(table.sh_offset, count);
    const auto& strings = sections[table.sh_link];
    auto* names = file.at<char>(strings.sh_offset, strings.sh_size);
    if (!symbols || !names) continue;
    found = true;
    for (uint64_t s = 0; s < count; ++s) {
      const auto& symbol = symbols[s];
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF ||
          symbol.st_name >= strings.sh_size) {
        continue;
      }
      const char* name = names + symbol.st_name;
      size_t length = ::strnlen(name, strings.sh_size - symbol.st_name);
      if (visit({symbol.st_value, symbol.st_size, {name, length}})) return true;
    }
  }
  return found;
}

std::string function_at(const std::string& file, uint64_t offset) {
  std::string found;
  auto visit = [&](const FunctionSymbol& function) {
    if (offset < function.address || offset - function.address >= function.size) return false;
    found = demangle(std::string(function.name).c_str());
    return true;
  };
  for (uint32_t type : {SHT_SYMTAB, SHT_DYNSYM}) {
    if (found.empty()) visit_functions(file, type, visit);
  }
  return found;
}

}  // namespace manta
