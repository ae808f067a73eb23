// The messages of a process to the hub, Hello first, and those of the hub to it.

#include <manta/core/messages_internal.h>

#include "messages.h"
#include "target.h"

namespace manta::fuzz::hub_messages {

void run(std::string_view input) {
  if (input.empty()) return;
  bool from_hub = input[0] != 0;
  input.remove_prefix(1);
  from_hub ? decode_input<FromHub>(input) : decode_input<ToHub>(input);
}

std::vector<std::string> seeds() {
  TaskSpec spec;
  Answer answer;
  answer.text = "why";
  std::string to_hub(1, '\0'), from_hub(1, '\1');
  return {to_hub + input_of<ToHub>(Hello{"token", {}, 3}),
          to_hub + input_of<ToHub>(Submit{spec}),
          to_hub + input_of<ToHub>(TaskDone{7, Outcome::failed(ErrorKind::kIo, "gone"), 1, true}),
          to_hub + input_of<ToHub>(CreateGroup{{spec, spec}}),
          to_hub + input_of<ToHub>(FindActor{1, "name", "type"}),
          from_hub + input_of<FromHub>(Welcome{1, {}, 0, "n1"}),
          from_hub + input_of<FromHub>(answer),
          from_hub + input_of<FromHub>(Run{spec, {}, 1, 1, {0, 1}})};
}

}  // namespace manta::fuzz::hub_messages
