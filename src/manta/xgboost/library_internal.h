#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "manta/base/error_internal.h"

namespace manta::xgboost {

/// Throws the library's text about a failed call, after `doing`. The kind is kWorkerLost if the
/// text is about the connections between workers, otherwise kInvalidArgument, since all other
/// errors are about given parameters, data or models.
void check_call(int result, const std::string& doing);

/// While it lives, the library's warnings that arise in this thread are collected here instead of
/// being printed.
class CollectWarnings {
 public:
  CollectWarnings();
  ~CollectWarnings();
  CollectWarnings(const CollectWarnings&) = delete;
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string>* outer_;
  std::vector<std::string> texts_;
};

/// From now on the library's messages in this thread go to Manta's log, as warnings or as
/// information (most of those that `verbosity` adds).
void log_library_messages();

struct FreeMatrix {
  void operator()(void* matrix) const;
};
struct FreeBooster {
  void operator()(void* booster) const;
};
using MatrixHandle = std::unique_ptr<void, FreeMatrix>;
using BoosterHandle = std::unique_ptr<void, FreeBooster>;

/// The library's description of an array in memory: rows of `columns` numbers each, or `rows`
/// numbers if there are no columns.
std::string array_interface(const float* data, int64_t rows, int64_t columns = 0);

}  // namespace manta::xgboost
