#include "manta/base/error_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/position_internal.h"

namespace manta::data {
namespace {

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
  Position position;
  try {
    JsonFields fields(json, std::string("the position"));
    position.epoch = fields.integer("epoch", 0, kMaxRows);
    position.rows = fields.integer("rows", 0, kMaxRows);
    position.window = fields.integer("window", 0, kMaxRows);
    position.window_first_row = fields.integer("window_first_row", 0, kMaxRows);
  } catch (const Error& error) {
    throw_bad(short_text(json), dataset, error.what());
  }
  check_position(position, dataset);
  return position;
}

void check_position(const Position& position, const std::string& dataset) {
  for (int64_t number :
       {position.epoch, position.rows, position.window, position.window_first_row}) {
    if (number >= 0 && number <= kMaxRows) continue;
    throw_bad_position(position, dataset,
                       str("each of its numbers must be from 0 to ", kMaxRows, ", not ", number));
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
