#include "manta/core/archive_json.h"

#include <vector>

#include "manta/base/error_internal.h"

namespace manta::internal {

void check_cbor_nesting(std::string_view bytes) {
  std::vector<uint64_t> missing;  // of each open container: how many items it still wants
  while (!bytes.empty()) {
    auto head = static_cast<uint8_t>(bytes[0]);
    bytes.remove_prefix(1);
    unsigned major = head >> 5;
    uint64_t argument = head & 31;
    // Lengths that come piece by piece, and tags.
    if (argument > 27 || major == 6) {
      throw Error(ErrorKind::kCorrupt, "a serialised JSON value is of a form that is never sent");
    }
    if (argument >= 24) {
      size_t size = size_t{1} << (argument - 24);
      if (size > bytes.size()) return;  // it ends early, as its reader will find
      argument = 0;
      for (size_t i = 0; i < size; ++i) {
        argument = argument << 8 | static_cast<uint8_t>(bytes[i]);
      }
      bytes.remove_prefix(size);
    }
    if (major == 2 || major == 3) {  // bytes or text
      if (argument > bytes.size()) return;
      bytes.remove_prefix(argument);
    }
    if ((major == 4 || major == 5) && argument > 0) {  // an array, or an object of pairs
      if (argument > bytes.size()) return;
      missing.push_back(major == 4 ? argument : 2 * argument);
      if (missing.size() > kMaxJsonNesting) {
        throw Error(ErrorKind::kCorrupt,
                    str("a JSON value is nested more than ", kMaxJsonNesting, " levels deep"));
      }
      continue;
    }
    while (!missing.empty() && --missing.back() == 0) missing.pop_back();
  }
}

}  // namespace manta::internal
