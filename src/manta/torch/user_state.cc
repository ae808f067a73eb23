#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/base/json_number_internal.h"
#include "manta/torch/user_state_internal.h"

namespace manta::detail {
namespace {

bool is_odd(const Json& json) {
  return json.is_number_float() && !std::isfinite(json.get<double>());
}

// Calls `visit` with each value that is neither an array nor an object, and with its place.
template <class AnyJson, class Visit>
void for_each_leaf(AnyJson& json, const Json::json_pointer& at, const Visit& visit) {
  if (json.is_object()) {
    for (auto& [key, value] : json.items()) for_each_leaf(value, at / key, visit);
  } else if (json.is_array()) {
    for (size_t i = 0; i < json.size(); ++i) for_each_leaf(json[i], at / i, visit);
  } else {
    visit(json, at);
  }
}

}  // namespace

void require_storable(const std::string& key, const Json& value, int depth) {
  check_depth(value, manta::str("TorchCheckpoint: the value of '", key, "'"), depth);
  auto fail = [&](const char* what) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("TorchCheckpoint: '", key, "' cannot be kept: ", what,
                           "; keep it as numbers, or in a file of its own"));
  };
  for_each_leaf(value, Json::json_pointer(), [&](const Json& leaf, const auto&) {
    if (leaf.is_binary() || leaf.is_discarded()) fail("it has bytes, which JSON has not");
  });
  if (!is_utf8(key) || !is_utf8(value)) fail("it has a text that is not UTF-8");
}

Json take_odd_numbers(Json& state) {
  Json numbers = Json::object();
  for_each_leaf(state, Json::json_pointer(), [&](Json& leaf, const Json::json_pointer& at) {
    if (!is_odd(leaf)) return;
    numbers[at.to_string()] = encode_number(leaf.get<double>());
    leaf = nullptr;
  });
  return numbers;
}

void put_odd_numbers(Json& state, const Json& numbers, const std::string& path) {
  for (const auto& [at, word] : numbers.items()) {
    auto number = decode_number(word);
    try {
      if (!number || std::isfinite(*number)) throw std::invalid_argument("no such number");
      state.at(Json::json_pointer(at)) = *number;
    } catch (const std::exception&) {
      throw Error(ErrorKind::kCorrupt, manta::str(path, " is damaged: it has ", short_text(word),
                                                  " for the number at ", short_text(at)));
    }
  }
}

}  // namespace manta::detail
