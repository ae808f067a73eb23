#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/core/archive.h"
#include "manta/core/function.h"
#include "manta/io/frame.h"
#include "manta/predict/predictor_factory.h"
#include "manta/serve/options.h"

/// The messages between the front and a replica. A replica has two connections to the front: one
/// for requests, and one for health checks, which a separate thread answers.
namespace manta::serve {

enum class ReplicaFrame : uint16_t {
  kJoin,     ///< First on a connection of a replica.
  kLoad,     ///< The front's answer, on the connection for requests.
  kLoaded,   ///< The replica's answer, once it has the model.
  kWork,     ///< Some requests. No more come before they are answered.
  kAnswers,  ///< All their answers.
  kStop,     ///< No more requests: the replica ends.
  kPing,     ///< On the other connection.
  kPong,
};

struct Join {
  std::string token;
  uint64_t replica = 0;
  bool for_health = false;
  int64_t pid = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(token, replica, for_health, pid);
  }
};

struct Load {
  PredictorFactory factory;
  std::string checkpoint;
  Function adapter;
  int32_t max_rows = 1;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(factory, checkpoint, adapter, max_rows);
  }
};

struct Loaded {
  bool ok = false;
  ErrorKind kind = ErrorKind::kUserCode;
  std::string why;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(ok, kind, why);
  }
};

template <class Message>
void put_frame(OutBuffer& out, ReplicaFrame type, const Message& message) {
  OutArchive archive(out.begin(static_cast<uint16_t>(type)));
  archive(message);
  out.end(std::move(archive.fds));
}
inline void put_frame(OutBuffer& out, ReplicaFrame type) {
  out.push(static_cast<uint16_t>(type), {});
}

/// Throws Error(kCorrupt) if it is a different message.
template <class Message>
Message read_frame(const Frame& frame, ReplicaFrame type) {
  if (frame.type != static_cast<uint16_t>(type)) {
    throw Error(ErrorKind::kCorrupt, str("received a message of type ", frame.type, " instead of ",
                                         static_cast<uint16_t>(type)));
  }
  InArchive archive(frame.body);
  Message message;
  read_value(archive, message);
  return message;
}

/// A request on its way to a replica: its header as it came, and its body. Large bodies travel in
/// shared memory.
struct WorkItem {
  uint64_t id = 0;
  int64_t microseconds_left = 0;
  std::string_view head, body;
};
struct WorkAnswer {
  uint64_t id = 0;
  int32_t status = 200;
  std::string body;
};

void put_work(OutBuffer& out, const std::vector<WorkItem>& items);
/// The items refer to the frame's bytes, and to the memory that is mapped into `memory`.
std::vector<WorkItem> read_work(Frame& frame, std::vector<std::shared_ptr<SharedMemory>>* memory);
void put_answers(OutBuffer& out, const std::vector<WorkAnswer>& answers);
std::vector<WorkAnswer> read_answers(Frame& frame);

/// How an adapter travels: see core/function.h.
Function locate_adapter(HttpAdapter adapter);
/// Throws Error(kInvalidArgument) if it comes from another build, or is not a function.
HttpAdapter resolve_adapter(const Function& function);

}  // namespace manta::serve
