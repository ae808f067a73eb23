#include "manta/core/function.h"

#include <elf.h>
#include <link.h>
#include <unwind.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

#include "manta/base/error_internal.h"
#include "manta/core/elf_symbols_internal.h"

namespace manta::internal {
namespace {

using BuildId = std::array<uint8_t, 20>;

struct Module {
  uintptr_t base = 0;
  std::string path;  // empty for the program itself
  std::optional<BuildId> build_id;
  std::vector<std::pair<uintptr_t, uintptr_t>> executable;  // address ranges
};

std::optional<BuildId> find_build_id(const dl_phdr_info& info, const ElfW(Phdr) & header) {
  auto* at = reinterpret_cast<const char*>(info.dlpi_addr + header.p_vaddr);
  auto* end = at + header.p_memsz;
  auto round_up = [&](size_t size) { return (size + 3) / 4 * 4; };
  while (at + sizeof(ElfW(Nhdr)) <= end) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof(note));
    const char* name = at + sizeof(note);
    const char* description = name + round_up(note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      BuildId id{};
      std::memcpy(id.data(), description, std::min<size_t>(note.n_descsz, id.size()));
      return id;
    }
    at = description + round_up(note.n_descsz);
  }
  return std::nullopt;
}

std::vector<Module> loaded_modules() {
  std::vector<Module> modules;
  auto visit = [](dl_phdr_info* info, size_t, void* out) {
    Module module;
    module.base = info->dlpi_addr;
    module.path = info->dlpi_name;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& header = info->dlpi_phdr[i];
      if (header.p_type == PT_NOTE && !module.build_id)
        module.build_id = find_build_id(*info, header);
      if (header.p_type == PT_LOAD && (header.p_flags & PF_X)) {
        uintptr_t begin = info->dlpi_addr + header.p_vaddr;
        module.executable.emplace_back(begin, begin + header.p_memsz);
      }
    }
    static_cast<std::vector<Module>*>(out)->push_back(std::move(module));
    return 0;
  };
  ::dl_iterate_phdr(visit, &modules);
  return modules;
}

const char* module_file(const Module& module) {
  return module.path.empty() ? "/proc/self/exe" : module.path.c_str();
}

const Module* find_module(const std::vector<Module>& modules, const BuildId& id) {
  for (const auto& module : modules) {
    if (module.build_id == id) return &module;
  }
  return nullptr;
}

bool is_executable(const Module& module, uintptr_t address) {
  for (const auto& [begin, end] : module.executable) {
    if (address >= begin && address < end) return true;
  }
  return false;
}

uintptr_t resolve(const CodeAddress& address) {
  auto modules = loaded_modules();
  const Module* module = find_module(modules, address.build_id);
  if (!module) {
    throw Error(ErrorKind::kInvalidArgument,
                str("a function of build ", to_hex(address.build_id),
                    " was sent to this process, which is build ", to_hex(program_build_id()),
                    " and has no such module loaded; run the same binary everywhere, with the same "
                    "libraries"));
  }
  return module->base + address.offset;
}

// Whether a function starts there, by the module's symbols. Stripping removes those, but not the
// unwind tables of exceptions, which know where every function starts.
bool is_function_start(const CodeAddress& address) {
  auto modules = loaded_modules();
  const Module* module = find_module(modules, address.build_id);
  if (!module || !is_executable(*module, module->base + address.offset)) return false;
  bool starts = false;
  bool has_symbols =
      visit_functions(module_file(*module), SHT_SYMTAB, [&](const FunctionSymbol& symbol) {
        starts = starts || symbol.address == address.offset;
        return starts;
      });
  if (has_symbols) return starts;
  auto* start = reinterpret_cast<char*>(module->base + address.offset);
  return _Unwind_FindEnclosingFunction(start + 1) == start;  // it looks at the byte before
}

struct ThunkRegistry {
  std::mutex mutex;
  std::unordered_set<Thunk> thunks;
};

ThunkRegistry& thunk_registry() {
  static auto* registry =
      new ThunkRegistry;  // used during static initialisation and to the very end
  return *registry;
}

struct AddressHash {
  size_t operator()(const CodeAddress& address) const {
    uint64_t id;
    std::memcpy(&id, address.build_id.data(), sizeof(id));
    return std::hash<uint64_t>()(address.offset * 0x9e3779b97f4a7c15u ^ id);
  }
};

}  // namespace

std::string to_hex(const BuildId& build_id) {
  std::string text;
  for (uint8_t byte : build_id) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  return text;
}

BuildId program_build_id() {
  static const BuildId id = [] {
    auto modules = loaded_modules();
    if (modules.empty() || !modules.front().build_id) {
      throw Error(ErrorKind::kInvalidArgument,
                  "this program was linked without a build id, by which its processes recognise "
                  "each other; link it "
                  "with -Wl,--build-id");
    }
    return *modules.front().build_id;
  }();
  return id;
}

CodeAddress locate_code(const void* address) {
  static std::shared_mutex mutex;
  static auto* cache = new std::unordered_map<const void*, CodeAddress>;
  {
    std::shared_lock lock(mutex);
    auto found = cache->find(address);
    if (found != cache->end()) return found->second;
  }
  auto at = reinterpret_cast<uintptr_t>(address);
  for (const auto& module : loaded_modules()) {
    if (!is_executable(module, at)) continue;
    if (!module.build_id) {
      throw Error(ErrorKind::kInvalidArgument, str("a function of '", module_file(module),
                                                   "' cannot be sent to another process: the file "
                                                   "has no build id; link it with -Wl,--build-id"));
    }
    CodeAddress result{*module.build_id, at - module.base};
    std::unique_lock lock(mutex);
    cache->emplace(address, result);
    return result;
  }
  throw Error(
      ErrorKind::kInvalidArgument,
      "a function pointer that points into no loaded module was passed; pass a plain function");
}

namespace {

std::string describe_code(const CodeAddress& address) {
  auto modules = loaded_modules();
  const Module* module = find_module(modules, address.build_id);
  std::string name;
  if (module) {
    visit_functions(module_file(*module), SHT_SYMTAB, [&](const FunctionSymbol& symbol) {
      if (symbol.address == address.offset) name = demangle(std::string(symbol.name).c_str());
      return !name.empty();
    });
  }
  if (!name.empty()) return name;
  return str(module ? module_file(*module) : "unknown module", "+0x", std::hex, address.offset);
}

// The text between the thunk's "<" and its parameter's end: a lambda's type or a method's name.
std::string thunk_subject(const std::string& name) {
  size_t begin = name.find("Thunk<");
  if (begin == std::string::npos) return name;
  begin += 6;
  bool method = name.compare(0, begin, "manta::detail::MethodThunk<") == 0;
  if (method) begin = name.find_first_not_of("&(", begin);
  int depth = 0;
  for (size_t i = begin; i < name.size(); ++i) {
    char c = name[i];
    if (method && depth == 0 && (c == '(' || c == ',')) return name.substr(begin, i - begin);
    if (depth == 0 && (c == '>' || c == ',')) return name.substr(begin, i - begin);
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == '}') --depth;
  }
  return name;
}

// "f" for "f(int)", "main::{lambda(int)#1}" for "main::{lambda(int)#1}::_FUN(int)".
std::string without_parameters(std::string name) {
  int depth = 0;
  for (size_t i = name.rfind(')'); i < name.size(); --i) {
    depth += name[i] == ')' ? 1 : name[i] == '(' ? -1 : 0;
    if (depth > 0) continue;
    name.resize(i);
    break;
  }
  constexpr std::string_view kConverted = "::_FUN";
  if (name.ends_with(kConverted)) name.resize(name.size() - kConverted.size());
  return name;
}

}  // namespace

std::string describe_function(const Function& function) {
  if (function.target.offset == 0) return thunk_subject(describe_code(function.thunk));
  return without_parameters(describe_code(function.target));
}

bool register_thunk(Thunk thunk) {
  std::lock_guard lock(thunk_registry().mutex);
  thunk_registry().thunks.insert(thunk);
  return true;
}

std::pair<Thunk, void (*)()> resolve_function(const Function& function) {
  static std::mutex mutex;
  static auto* thunks = new std::unordered_map<CodeAddress, Thunk, AddressHash>;
  static auto* targets = new std::unordered_map<CodeAddress, void (*)(), AddressHash>;
  std::lock_guard lock(mutex);

  auto thunk = thunks->find(function.thunk);
  if (thunk == thunks->end()) {
    auto address = reinterpret_cast<Thunk>(resolve(function.thunk));
    std::lock_guard registry_lock(thunk_registry().mutex);
    if (!thunk_registry().thunks.contains(address)) {
      throw Error(
          ErrorKind::kInvalidArgument,
          str("a call names offset 0x", std::hex, function.thunk.offset, " of build ",
              to_hex(function.thunk.build_id), ", which is no function that this program sends"));
    }
    thunk = thunks->emplace(function.thunk, address).first;
  }
  if (function.target.offset == 0) return {thunk->second, nullptr};

  auto target = targets->find(function.target);
  if (target == targets->end()) {
    auto address = reinterpret_cast<void (*)()>(resolve(function.target));
    if (!is_function_start(function.target)) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("a call names offset 0x", std::hex, function.target.offset, " of build ",
                      to_hex(function.target.build_id), ", where no function starts"));
    }
    target = targets->emplace(function.target, address).first;
  }
  return {thunk->second, target->second};
}

}  // namespace manta::internal
