#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "manta/base/json.h"
#include "manta/core/archive.h"

namespace manta::internal {

/// The deepest nesting of arrays and objects that may be sent: reading them is recursive.
inline constexpr int kMaxJsonNesting = 500;

/// Throws Error(kCorrupt) if the CBOR bytes nest more deeply, or are of a kind that Json::to_cbor
/// never writes.
void check_cbor_nesting(std::string_view bytes);

// JSON is sent as CBOR, which keeps every bit of a number. (Templates, because nearly everything
// converts to Json.)
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
  check_cbor_nesting(bytes);
  json = Json::from_cbor(bytes, true, false);
  if (json.is_discarded()) throw Error(ErrorKind::kCorrupt, "a serialised JSON value is damaged");
}

}  // namespace manta::internal
