#pragma once

#include <array>
#include <string>
#include <variant>

#include "manta/core/message_codec_internal.h"
#include "manta/serve/deploy_spec_internal.h"
#include "manta/serve/status.h"

/// The messages between a program and a detached front, over a Unix socket: a greeting, then one
/// request after the other, each with an answer.
namespace manta::serve {

/// Both ends must have the same number.
inline constexpr uint32_t kControlProtocol = 1;

struct Greeting {
  uint32_t protocol = kControlProtocol;
  std::string token;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(protocol, token);
  }
};
struct AskDeploy {
  DeploySpec spec;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(spec);
  }
};
struct AskRemove {
  std::string name;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(name);
  }
};
struct AskStatus {
  template <class Archive>
  void serialize(Archive&) {}
};
struct AskShutdown {
  template <class Archive>
  void serialize(Archive&) {}
};
using ToFront = std::variant<Greeting, AskDeploy, AskRemove, AskStatus, AskShutdown>;

struct Welcome {
  std::array<uint8_t, 20> build_id{};
  HttpOptions http;  // without the token
  template <class Archive>
  void serialize(Archive& archive) {
    archive(build_id, http);
  }
};
struct Reply {
  bool ok = true;
  ErrorKind kind = ErrorKind::kIo;
  std::string why;
  Status status;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(ok, kind, why, status);
  }
};
using FromFront = std::variant<Welcome, Reply>;

}  // namespace manta::serve
