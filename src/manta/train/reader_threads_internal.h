#pragma once

#include <memory>
#include <mutex>

#include "manta/base/names_internal.h"
#include "manta/io/channel_internal.h"

namespace manta::train {

/// How many threads a data reader may use. Data readers of several runs share the processors of
/// their node, and the driver knows how many runs there are.
class ReaderThreads {
 public:
  /// Nothing else may read this channel to the driver.
  explicit ReaderThreads(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}

  /// Asks the driver. If it does not answer, its last answer counts; 1 if it has never answered.
  /// Any thread may call it.
  int now();

 private:
  const std::shared_ptr<Channel> channel_;
  std::mutex mutex_;
  int last_ = 1;
};

}  // namespace manta::train
