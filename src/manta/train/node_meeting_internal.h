#pragma once

#include <string>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"
#include "manta/train/messages_internal.h"

/// How the processes of a node other than the driver's get the descriptors that they share: memory
/// for collectives, and a socket between each worker and the data reader. The node's first worker
/// makes them and listens in the node's temporary folder; each of the others connects once.
namespace manta::train {

/// The first worker's side.
class NodeMeeting {
 public:
  /// Listens. `place` is the first worker's own.
  NodeMeeting(const Place& place, const std::string& token);
  ~NodeMeeting();
  NodeMeeting(const NodeMeeting&) = delete;

  /// Hands out descriptors until all have come, and returns the first worker's own. Throws
  /// Error(kTimeout) naming the processes that have not come.
  Descriptors serve(Deadline deadline);

 private:
  Descriptors answer(int local_rank);

  const Place place_;
  const std::string token_;
  const std::string path_;
  UniqueFd listener_;
  SharedFd region_;
  std::vector<SharedFd> feeds_;      // the workers' ends
  std::vector<SharedFd> feed_ends_;  // the reader's
};

/// The side of the other processes. Throws Error(kWorkerLost) if the first worker is not there any
/// more.
Descriptors visit_meeting(const std::string& meeting, const std::string& token, int local_rank,
                          Deadline deadline);

}  // namespace manta::train
