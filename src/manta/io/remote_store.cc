#include <arrow/filesystem/filesystem.h>
#include <arrow/filesystem/s3fs.h>
#include <arrow/util/io_util.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "manta/io/arrow_status_internal.h"
#include "manta/io/remote_store_internal.h"

namespace manta {
namespace {

constexpr int64_t kRequestTries = 3;
constexpr int64_t kRetryMilliseconds = 100;

/// The stores of this process, by the parts of their addresses before and after the path.
struct Stores {
  std::mutex mutex;
  std::map<std::string, RemoteStore> by_address;
};

// Never destroyed: threads may read while the process exits.
Stores& stores() {
  static auto* all = new Stores;
  return *all;
}

// The library must be shut down before its own statics are destroyed, and no client may outlive it.
void end_stores() {
  {
    std::lock_guard lock(stores().mutex);
    stores().by_address.clear();
  }
  arrow::fs::EnsureFinalized();
}

// Arrow's S3 store is in a separate library, which starts threads: it is loaded when it is needed.
void load_s3() {
  static std::mutex mutex;
  static bool loaded = false;
  std::lock_guard lock(mutex);
  if (loaded) return;
  Dl_info arrow_library{};
  ::dladdr(reinterpret_cast<void*>(&arrow::fs::EnsureFinalized), &arrow_library);
  std::string path = arrow_library.dli_fname ? arrow_library.dli_fname : "";
  size_t name = path.rfind("libarrow.so");
  if (name == std::string::npos) {
    throw Error(ErrorKind::kInvalidArgument,
                str("the library of S3 is looked for beside libarrow.so, and this program has "
                    "Arrow in '",
                    path, "'"));
  }
  path.replace(name, std::strlen("libarrow"), "libarrow_s3");
  auto status = arrow::fs::LoadFileSystemFactories(path.c_str());
  if (!status.ok()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("loading the library of S3, '", path, "': ", status_text(status)));
  }
  loaded = true;
}

/// Tries again, soon, when the library itself says that a retry may help.
class FewRetries final : public arrow::fs::S3RetryStrategy {
 public:
  bool ShouldRetry(const AWSErrorDetail& error, int64_t attempted) override {
    return error.should_retry && attempted < kRequestTries - 1;
  }
  int64_t CalculateDelayBeforeNextRetry(const AWSErrorDetail&, int64_t attempted) override {
    return kRetryMilliseconds << attempted;
  }
};

RemoteStore connect(const RemoteAddress& address) {
  RemoteAddress base = address.with_path("");
  RemoteStore store;
  store.is_s3 = base.scheme == "s3";
  std::string uri = str(base.scheme, "://", base.authority, store.is_s3 ? "" : "/",
                        base.query.empty() ? "" : "?", base.query);
  arrow::fs::FileSystemFactoryOptions options;
  if (store.is_s3) {
    load_s3();
    options.emplace_back("retry_strategy",
                         std::shared_ptr<arrow::fs::S3RetryStrategy>(new FewRetries));
  }
  auto made = arrow::fs::FileSystemFromUriAndOptions(uri, options, &store.root);
  // Registered after the library's own exit handlers, so it runs before them.
  static const int registered = std::atexit(end_stores);
  static_cast<void>(registered);
  if (made.ok()) {
    store.files = *made;
    return store;
  }
  Error error = remote_error(made.status(), str("connecting to '", base.text(), "'"));
  if (!made.status().IsIOError()) throw Error(ErrorKind::kInvalidArgument, error.what());
  throw error;
}

}  // namespace

RemoteStore store_of(const RemoteAddress& address) {
  std::string key = address.with_path("").text();
  {
    std::lock_guard lock(stores().mutex);
    if (auto found = stores().by_address.find(key); found != stores().by_address.end()) {
      return found->second;
    }
  }
  RemoteStore made = connect(address);
  std::lock_guard lock(stores().mutex);
  return stores().by_address.emplace(key, std::move(made)).first->second;
}

std::string RemoteStore::path_of(const RemoteAddress& address) const {
  if (address.path.empty()) return root;
  return root.empty() || root.ends_with('/') ? root + address.path : root + "/" + address.path;
}

std::string RemoteStore::relative(const std::string& path) const {
  std::string_view rest = path;
  if (rest.starts_with(root)) rest.remove_prefix(root.size());
  while (rest.starts_with('/')) rest.remove_prefix(1);
  return std::string(rest);
}

Error remote_error(const arrow::Status& status, const std::string& doing) {
  std::string what = str(doing, ": ", status_text(status));
  auto says = [&](const char* words) { return what.find(words) != std::string::npos; };
  if (says("NO_SUCH_BUCKET") || arrow::internal::ErrnoFromStatus(status) == ENOENT) {
    return Error(ErrorKind::kNotFound, what);
  }
  if (says("ACCESS_DENIED") || says("INVALID_ACCESS_KEY_ID") || says("SIGNATURE_DOES_NOT_MATCH") ||
      says("HTTP status 401") || says("HTTP status 403") || says("InvalidAccessKeyId") ||
      says("SignatureDoesNotMatch") || says("AccessDenied")) {
    return Error(ErrorKind::kInvalidArgument,
                 what +
                     "; access is refused: give a key in the environment (AWS_ACCESS_KEY_ID, "
                     "AWS_SECRET_ACCESS_KEY) or in ~/.aws/credentials, or s3://anonymous@bucket "
                     "for what everybody may read");
  }
  if (status.IsOutOfMemory()) return Error(ErrorKind::kResources, what);
  if (status.IsNotImplemented()) return Error(ErrorKind::kInvalidArgument, what);
  return Error(ErrorKind::kIo, what);
}

}  // namespace manta
