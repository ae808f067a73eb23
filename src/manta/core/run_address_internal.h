#pragma once

#include <string>

namespace manta {

/// What a worker needs to find its run.
struct RunAddress {
  std::string socket_path;
  std::string token;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(socket_path, token);
  }
};

}  // namespace manta
