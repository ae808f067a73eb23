// The messages between workers and the data reader.

#include <manta/data/feed_internal.h>

#include "messages.h"
#include "target.h"

namespace manta::fuzz::feed_messages {

void run(std::string_view input) {
  using namespace data;
  if (input.empty()) return;
  bool to_reader = input[0] != 0;
  input.remove_prefix(1);
  to_reader ? decode_input<ToReader>(input) : decode_input<FromReader>(input);
}

std::vector<std::string> seeds() {
  using namespace data;
  std::string from(1, '\0'), to(1, '\1');
  return {to + input_of<ToReader>(OpenPass{1, "train", {}, 64, 1, false}),
          from + input_of<FromReader>(PassSchema{1, "schema"}),
          from + input_of<FromReader>(PassFailed{1, ErrorKind::kIo, "why"})};
}

}  // namespace manta::fuzz::feed_messages
