#include "manta/base/error.h"
#include "manta/data/position_internal.h"

namespace manta::data {
namespace {

constexpr size_t kShownBytes = 200;

[[noreturn]] void throw_bad(const std::string& position, const std::string& dataset,
                            const std::string& why) {
  throw Error(ErrorKind::kCorrupt,
              str("data set '", dataset, "' cannot go on at the position ", position, ": ", why,
                  "; use an undamaged checkpoint, or the data set that it was made with"));
}

}  // namespace

void throw_bad_position(const Position& position, const std::string& dataset,
                        const std::string& why) {
  throw_bad(position.to_json().dump(), dataset, why);
}

Json Position::to_json() const {
  return {
      {"epoch", epoch}, {"rows", rows}, {"window", window}, {"window_first_row", window_first_row}};
}

Position Position::from_json(const Json& json, const std::string& dataset) {
  // What is not UTF-8 must not throw on its way into the message.
  std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShownBytes) text = text.substr(0, kShownBytes) + "...";
  if (!json.is_object()) throw_bad(text, dataset, "a position is a JSON object");
  Position position;
  auto read = [&](const char* key, int64_t& value) {
    auto found = json.find(key);
    if (found == json.end()) throw_bad(text, dataset, str("it has no '", key, "'"));
    bool fits = found->is_number_integer() &&
                (!found->is_number_unsigned() || found->get<uint64_t>() <= uint64_t{INT64_MAX});
    if (!fits) throw_bad(text, dataset, str("'", key, "' is not a whole number of 64 bits"));
    value = found->get<int64_t>();
  };
  read("epoch", position.epoch);
  read("rows", position.rows);
  read("window", position.window);
  read("window_first_row", position.window_first_row);
  check_position(position, dataset);
  return position;
}

void check_position(const Position& position, const std::string& dataset) {
  if (position.epoch < 0 || position.rows < 0 || position.window < 0 ||
      position.window_first_row < 0) {
    throw_bad_position(position, dataset, "none of its numbers may be negative");
  }
  if (position.rows == 0 && (position.window != 0 || position.window_first_row != 0)) {
    throw_bad_position(position, dataset, "before the first row the window is 0, from row 0 on");
  }
  if (position.window == 0 && position.window_first_row != 0) {
    throw_bad_position(position, dataset, "window 0 begins with row 0");
  }
  if (position.rows > 0 && position.window_first_row >= position.rows) {
    throw_bad_position(position, dataset, "the window must begin before the last row taken");
  }
}

}  // namespace manta::data
