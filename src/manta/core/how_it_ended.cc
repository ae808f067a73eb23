#include "manta/core/how_it_ended_internal.h"

namespace manta {

std::string how_it_ended(const Error& error) {
  std::string message = error.what();
  if (error.kind() == ErrorKind::kWorkerLost) {
    if (size_t at = message.find("its process "); at != std::string::npos)
      return message.substr(at);
  }
  if (!message.starts_with("task '")) return message;
  for (std::string before : {"' failed: ", "' "}) {
    if (size_t at = message.find(before); at != std::string::npos)
      return message.substr(at + before.size());
  }
  return message;
}

}  // namespace manta
