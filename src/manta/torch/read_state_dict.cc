#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/Storage.h>
#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "manta/base/error_internal.h"
#include "manta/torch/state_dict.h"
#include "manta/torch/state_dict_types_internal.h"
#include "manta/torch/unpickle_internal.h"

namespace manta {
namespace {

using detail::PickleValue;

constexpr size_t kMostNamesInError = 10;
constexpr size_t kMostDimensions = 64;
constexpr const char* kRebuild = "torch._utils._rebuild_tensor_v2";
constexpr const char* kRebuildTyped = "torch._utils._rebuild_tensor_v3";
constexpr const char* kRebuildParameter = "torch._utils._rebuild_parameter";
constexpr const char* kUntyped = "torch.storage.UntypedStorage";

const detail::StateDictType* type_named(const std::string& global) {
  for (const auto& each : detail::kStateDictTypes) {
    if (global == std::string("torch.") + each.dtype) return &each;
    if (each.storage && global == std::string("torch.") + each.storage) return &each;
  }
  return nullptr;
}

bool is_allowed(const std::string& global) {
  for (const char* each : {"collections.OrderedDict", kRebuild, kRebuildTyped, kRebuildParameter,
                           kUntyped, "torch.Size"}) {
    if (global == each) return true;
  }
  return type_named(global) != nullptr;
}

/// One file of Python's.
class StateDictFile {
 public:
  explicit StateDictFile(const std::string& path) : path_(path), what_(manta::str("'", path, "'")) {
    std::error_code error;
    size_ = std::filesystem::file_size(path, error);
    if (error) {
      bool is_missing = error == std::errc::no_such_file_or_directory;
      throw Error(is_missing ? ErrorKind::kNotFound : ErrorKind::kIo,
                  manta::str("the state_dict ", what_, ": ", error.message()));
    }
    guard("it is no file of torch.save (a zip archive)",
          [&] { reader_ = std::make_unique<caffe2::serialize::PyTorchStreamReader>(path); });
    if (has("byteorder") && record("byteorder") != "little")
      fail("its numbers are not little-endian");
    if (!has("data.pkl")) fail("it has no data.pkl");
  }

  std::vector<NamedTensor> read(const ReadStateDictOptions& options) {
    std::string bytes = record("data.pkl");
    detail::Pickle pickle = detail::unpickle(bytes, what_, is_allowed);
    const PickleValue& dict = find(*pickle.top, options.key);
    std::vector<NamedTensor> tensors;
    std::set<std::string> names;
    for (const auto& [key, value] : dict.entries) {
      std::string name = key->kind == PickleValue::kText ? key->text : "(no text)";
      if (key->kind != PickleValue::kText || value->kind != PickleValue::kCall)
        refuse_entry(dict, name, *value);
      if (!names.insert(name).second) fail(manta::str("it has '", name, "' twice"));
      try {
        tensors.push_back({name, tensor(*value)});
      } catch (const Error& error) {
        throw Error(error.kind(), manta::str(error.what(), " (of '", name, "')"));
      }
    }
    return tensors;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorKind::kCorrupt, manta::str("the state_dict ", what_, ": ", why));
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorKind::kInvalidArgument, manta::str("the state_dict ", what_, ": ", why));
  }

  // Errors of libtorch's reader as ours.
  template <class F>
  void guard(const char* why, F call) const {
    try {
      call();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      std::string text = error.what();
      fail(manta::str(why, ": ", text.substr(0, text.find('\n'))));
    }
  }

  bool has(const std::string& name) const {
    bool found = false;
    guard("its directory is damaged", [&] { found = reader_->hasRecord(name); });
    return found;
  }

  // torch.save does not compress: none of its parts is larger than the file.
  std::pair<at::DataPtr, size_t> bytes_of(const std::string& name) const {
    at::DataPtr data;
    size_t size = 0;
    guard("a part cannot be read", [&] {
      if (reader_->getRecordSize(name) > size_)
        fail(manta::str("its part '", name, "' is larger than the file"));
      std::tie(data, size) = reader_->getRecord(name);
    });
    return {std::move(data), size};
  }
  std::string record(const std::string& name) const {
    auto [data, size] = bytes_of(name);
    return std::string(static_cast<const char*>(data.get()), size);
  }

  static std::string names_in(const PickleValue& dict) {
    std::string names;
    for (size_t i = 0; i < dict.entries.size() && i < kMostNamesInError; ++i) {
      const auto& [key, value] = dict.entries[i];
      names += manta::str(i == 0 ? "" : ", ", key->kind == PickleValue::kText ? key->text : "?",
                          " (", kind_of(*value), ")");
    }
    if (dict.entries.size() > kMostNamesInError) names += ", ...";
    return names.empty() ? "nothing" : names;
  }

  const PickleValue& find(const PickleValue& top, const std::string& key) const {
    const PickleValue* found = &top;
    std::string rest = key;
    while (true) {
      if (found->kind != PickleValue::kDict)
        refuse(manta::str(key.empty() ? "the file holds " : manta::str("'", key, "' is "),
                          kind_of(*found), ", not a dict of tensors"));
      if (rest.empty()) return *found;
      std::string name = rest.substr(0, rest.find('/'));
      rest = name.size() == rest.size() ? "" : rest.substr(name.size() + 1);
      auto entry = std::find_if(found->entries.begin(), found->entries.end(), [&](const auto& e) {
        return e.first->kind == PickleValue::kText && e.first->text == name;
      });
      if (entry == found->entries.end())
        refuse(manta::str("it has no '", key, "'; it has: ", names_in(*found)));
      found = entry->second;
    }
  }

  [[noreturn]] void refuse_entry(const PickleValue& dict, const std::string& name,
                                 const PickleValue& value) const {
    refuse(manta::str("its '", name, "' is ", kind_of(value),
                      ", not a tensor. If it holds several things, give the key of the state_dict: "
                      "ReadStateDictOptions::key; it has: ",
                      names_in(dict)));
  }

  const PickleValue& argument(const PickleValue& call, size_t index, PickleValue::Kind kind) const {
    if (index >= call.items.size() || call.items[index]->kind != kind)
      fail(manta::str(call.text, " has other arguments than expected"));
    return *call.items[index];
  }

  at::Tensor tensor(const PickleValue& call) {
    if (call.text == kRebuildParameter) {
      const PickleValue& data = argument(call, 0, PickleValue::kCall);
      if (data.text == kRebuildParameter) fail("a parameter of a parameter");
      return tensor(data);
    }
    bool is_typed = call.text == kRebuildTyped;
    if (!is_typed && call.text != kRebuild)
      refuse(manta::str(kind_of(call), " is not a tensor that is read"));
    const PickleValue& id = *argument(call, 0, PickleValue::kPersistent).items.front();
    std::vector<int64_t> sizes = numbers(call, 2), strides = numbers(call, 3);
    int64_t offset = argument(call, 1, PickleValue::kInt).number;
    const auto* type =
        is_typed ? type_named(argument(call, 6, PickleValue::kGlobal).text) : nullptr;
    if (is_typed && !type) fail("its type is unknown");
    check_is_plain(call, is_typed ? 7 : 6);
    const Stored& stored = storage(id, type);
    check_fits(stored, offset, sizes, strides);
    at::Tensor result = at::empty({0}, at::TensorOptions().dtype(stored.type));
    result.set_(stored.storage, offset, sizes, strides);
    return result;
  }

  // Views that are conjugated or negated when they are used.
  void check_is_plain(const PickleValue& call, size_t index) const {
    if (index >= call.items.size()) return;
    const PickleValue& metadata = argument(call, index, PickleValue::kDict);
    if (!metadata.entries.empty()) refuse("a conjugated or negated view is not read: clone() it");
  }

  std::vector<int64_t> numbers(const PickleValue& call, size_t index) const {
    const PickleValue* tuple = index < call.items.size() ? call.items[index] : nullptr;
    if (tuple && tuple->kind == PickleValue::kCall && tuple->text == "torch.Size")
      tuple = &argument(*tuple, 0, PickleValue::kTuple);
    if (!tuple || tuple->kind != PickleValue::kTuple || tuple->items.size() > kMostDimensions)
      fail("a tensor's shape is no tuple");
    std::vector<int64_t> all;
    for (const PickleValue* each : tuple->items) {
      if (each->kind != PickleValue::kInt || each->number < 0) fail("a tensor's shape is damaged");
      all.push_back(each->number);
    }
    return all;
  }

  struct Stored {
    c10::Storage storage;
    c10::ScalarType type;
    size_t bytes = 0;
  };

  // ("storage", class, key, device, number of elements)
  const Stored& storage(const PickleValue& id, const detail::StateDictType* type) {
    bool is_one = id.kind == PickleValue::kTuple && id.items.size() == 5 &&
                  id.items[0]->kind == PickleValue::kText && id.items[0]->text == "storage" &&
                  id.items[1]->kind == PickleValue::kGlobal &&
                  id.items[2]->kind == PickleValue::kText && id.items[4]->kind == PickleValue::kInt;
    if (!is_one) fail("a storage is damaged");
    if (!type && id.items[1]->text != kUntyped) type = type_named(id.items[1]->text);
    if (!type) fail("a storage without a type");
    const std::string& key = id.items[2]->text;
    auto [place, is_new] = storages_.try_emplace({key, type->type});
    Stored& stored = place->second;
    if (!is_new) return stored;
    stored.type = type->type;
    auto known = parts_.find(key);
    if (known == parts_.end()) {
      if (key.empty() || key.size() > 20 || !has("data/" + key)) {
        storages_.erase(place);
        fail(manta::str("it has no storage '", key.substr(0, 20), "'"));
      }
      auto [data, size] = bytes_of("data/" + key);
      c10::Storage bytes(c10::Storage::use_byte_size_t(), size, std::move(data), nullptr, false);
      known = parts_.emplace(key, std::move(bytes)).first;
    }
    stored.storage = known->second;
    stored.bytes = known->second.nbytes();
    return stored;
  }

  void check_fits(const Stored& stored, int64_t offset, const std::vector<int64_t>& sizes,
                  const std::vector<int64_t>& strides) const {
    bool fits = offset >= 0 && sizes.size() == strides.size();
    int64_t last = offset, count = 1;
    bool is_empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
    for (size_t i = 0; fits && i < sizes.size(); ++i) {
      int64_t reach = 0;
      fits = !__builtin_mul_overflow(count, std::max<int64_t>(sizes[i], 1), &count) &&
             (is_empty || (!__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) &&
                           !__builtin_add_overflow(last, reach, &last)));
    }
    int64_t end = 0, bytes = 0;
    auto width = static_cast<int64_t>(c10::elementSize(stored.type));
    fits = fits && !__builtin_add_overflow(last, is_empty ? 0 : 1, &end) &&
           !__builtin_mul_overflow(end, width, &bytes) &&
           !__builtin_mul_overflow(count, width, &count) &&
           static_cast<uint64_t>(bytes) <= stored.bytes;
    if (!fits) fail("a tensor reaches beyond its storage");
  }

  const std::string path_, what_;
  uint64_t size_ = 0;
  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader_;
  std::map<std::string, c10::Storage> parts_;
  std::map<std::pair<std::string, c10::ScalarType>, Stored> storages_;
};

}  // namespace

std::vector<NamedTensor> read_state_dict(const std::string& path,
                                         const ReadStateDictOptions& options) {
  return StateDictFile(path).read(options);
}

}  // namespace manta
