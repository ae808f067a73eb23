#include <ATen/core/Tensor.h>
#include <caffe2/serialize/inline_container.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>

#include "manta/base/error_internal.h"
#include "manta/torch/state_dict.h"
#include "manta/torch/state_dict_types_internal.h"
#include "manta/train/file_internal.h"

namespace manta {
namespace {

/// Pickle, protocol 2, as torch.save writes it.
class PickleWriter {
 public:
  PickleWriter() { bytes_ = "\x80\x02"; }
  std::string take() { return std::move(bytes_) + "."; }

  void code(char c) { bytes_ += c; }
  void global(const std::string& module, const std::string& name) {
    bytes_ += manta::str("c", module, "\n", name, "\n");
  }
  void text(const std::string& text) {
    bytes_ += 'X';
    little(text.size(), 4);
    bytes_ += text;
  }
  void number(int64_t number) {
    bytes_ += "\x8a\x08";
    little(static_cast<uint64_t>(number), 8);
  }
  void numbers(at::IntArrayRef all) {
    code('(');
    for (int64_t each : all) number(each);
    code('t');
  }
  void empty_ordered_dict() {
    global("collections", "OrderedDict");
    bytes_ += ")R";
  }

 private:
  void little(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }

  std::string bytes_;
};

const detail::StateDictType& type_of(const NamedTensor& item) {
  for (const auto& each : detail::kStateDictTypes)
    if (each.type == item.tensor.scalar_type()) return each;
  throw Error(ErrorKind::kInvalidArgument,
              manta::str("a state_dict file has no type for tensor '", item.name, "' (",
                         c10::toString(item.tensor.scalar_type()), ")"));
}

void add_tensor(PickleWriter& out, const at::Tensor& tensor, const detail::StateDictType& type,
                const std::string& key) {
  bool is_typed = !type.storage;
  out.global("torch._utils", is_typed ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  out.code('(');
  out.code('(');
  out.text("storage");
  if (is_typed) {
    out.global("torch.storage", "UntypedStorage");
  } else {
    out.global("torch", type.storage);
  }
  out.text(key);
  out.text("cpu");
  out.number(is_typed ? static_cast<int64_t>(tensor.nbytes()) : tensor.numel());
  out.code('t');
  out.code('Q');
  out.number(0);
  out.numbers(tensor.sizes());
  out.numbers(tensor.strides());
  out.code('\x89');  // requires_grad: False
  out.empty_ordered_dict();
  if (is_typed) out.global("torch", type.dtype);
  out.code('t');
  out.code('R');
}

// Writes to a new file that then replaces the one with this name.
class ReplacedFile {
 public:
  explicit ReplacedFile(const std::string& path)
      : path_(path), partial_(manta::str(path, ".partial-", ::getpid())) {
    fd_ = UniqueFd(::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!fd_) throw_errno(manta::str("writing the state_dict '", path_, "'"));
  }
  ~ReplacedFile() {
    if (fd_) ::unlink(partial_.c_str());
  }
  void write(const void* data, size_t size) { train::write_all(fd_.get(), data, size, path_); }
  void publish() {
    if (::rename(partial_.c_str(), path_.c_str()) != 0)
      throw_errno(manta::str("writing the state_dict '", path_, "'"));
    fd_.reset();
  }

 private:
  const std::string path_, partial_;
  UniqueFd fd_;
};

}  // namespace

void write_state_dict(const std::string& path, const std::vector<NamedTensor>& tensors) {
  PickleWriter pickle;
  pickle.empty_ordered_dict();
  pickle.code('(');
  std::vector<at::Tensor> storages;
  std::map<std::tuple<const void*, size_t, c10::ScalarType>, std::string> keys;
  std::set<std::string> names;
  for (const NamedTensor& item : tensors) {
    if (!names.insert(item.name).second) {
      throw Error(ErrorKind::kInvalidArgument,
                  manta::str("a state_dict cannot have '", item.name, "' twice"));
    }
    if (!item.tensor.defined() || item.tensor.layout() != at::kStrided) {
      throw Error(ErrorKind::kInvalidArgument,
                  manta::str("a state_dict file cannot hold tensor '", item.name, "': it is ",
                             item.tensor.defined() ? "sparse" : "undefined"));
    }
    const auto& type = type_of(item);
    // resolve_*: a conjugated view shares the memory of the original tensor.
    at::Tensor tensor = item.tensor.detach().resolve_conj().resolve_neg().cpu().contiguous();
    auto [known, is_new] = keys.try_emplace({tensor.data_ptr(), tensor.nbytes(), type.type},
                                            std::to_string(storages.size()));
    if (is_new) storages.push_back(tensor);  // keeps its memory from being reused
    pickle.text(item.name);
    add_tensor(pickle, tensor, type, known->second);
  }
  pickle.code('u');
  std::string bytes = pickle.take();

  ReplacedFile file(path);
  // Must not reach libtorch's writer, whose destructor would end the process.
  std::exception_ptr failure;
  try {
    caffe2::serialize::PyTorchStreamWriter archive([&](const void* data, size_t size) -> size_t {
      try {
        if (!failure) file.write(data, size);
      } catch (...) {
        failure = std::current_exception();
      }
      return size;
    });
    archive.writeRecord("data.pkl", bytes.data(), bytes.size());
    archive.writeRecord("byteorder", "little", 6);
    for (size_t i = 0; i < storages.size(); ++i) {
      archive.writeRecord(manta::str("data/", i), storages[i].data_ptr(), storages[i].nbytes());
    }
    archive.writeEndOfFile();
  } catch (const std::exception& error) {
    if (failure) std::rethrow_exception(failure);
    throw Error(ErrorKind::kIo, manta::str("writing the state_dict '", path, "': ", error.what()));
  }
  if (failure) std::rethrow_exception(failure);
  file.publish();
}

}  // namespace manta
