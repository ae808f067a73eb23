#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "manta/train/messages_internal.h"

namespace manta::train {

/// The key-value store of a group, through which process groups form. It does no I/O.
class KeyValueStore {
 public:
  struct Answer {
    int rank = 0;
    StoreReply reply;
  };
  /// The answers that a request leads to: its own, unless it has to wait for another worker, and
  /// those of earlier requests that waited for it. Throws Error(kCorrupt) if the request makes no
  /// sense.
  std::vector<Answer> ask(int rank, StoreRequest request);

 private:
  std::optional<StoreReply> answer(const StoreRequest& request);
  int64_t add(const std::string& key, int64_t amount);

  struct Waiting {
    int rank;
    StoreRequest request;
  };
  std::map<std::string, std::string> values_;
  std::vector<Waiting> waiting_;
};

}  // namespace manta::train
