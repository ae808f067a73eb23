#pragma once

#include <concepts>
#include <string>

#include "manta/base/json.h"
#include "manta/core/archive.h"

namespace manta {

// JSON travels as CBOR: numbers keep every bit. (Templates, because nearly everything converts to
// Json.)
template <std::same_as<Json> J>
void CEREAL_SAVE_FUNCTION_NAME(OutArchive& archive, const J& json) {
  std::string bytes;
  Json::to_cbor(json, bytes);
  archive(bytes);
}
template <std::same_as<Json> J>
void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive, J& json) {
  std::string bytes;
  archive(bytes);
  json = Json::from_cbor(bytes, true, false);
  if (json.is_discarded()) throw Error(ErrorKind::kCorrupt, "a serialised JSON value is damaged");
}

}  // namespace manta
