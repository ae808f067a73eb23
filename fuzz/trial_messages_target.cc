// The messages of a function's trial to the driver, JoinExperiment first, and the driver's answers.

#include <manta/tune/function_messages_internal.h>

#include "messages.h"
#include "target.h"

namespace manta::fuzz::trial_messages {

void run(std::string_view input) {
  using namespace tune;
  if (input.empty()) return;
  bool to_trial = input[0] != 0;
  input.remove_prefix(1);
  to_trial ? decode_input<ToTrial>(input) : decode_input<FromTrial>(input);
}

std::vector<std::string> seeds() {
  using namespace tune;
  SendTrialReport report{1, {{"loss", 0.5}}, true, {{"model.safetensors", 8, "00"}}};
  std::string from(1, '\0'), to(1, '\1');
  return {from + input_of<FromTrial>(JoinExperiment{"token", 3, 1, 2}),
          from + input_of<FromTrial>(report),
          from + input_of<FromTrial>(train::SendChunk{1, "model.safetensors", 0, "bytes"}),
          from + input_of<FromTrial>(train::WantChunk{"model.safetensors", 4}),
          to + input_of<ToTrial>(SendVerdict{1, true, ""}),
          to + input_of<ToTrial>(train::FileChunk{"bytes", true}),
          to + input_of<ToTrial>(FilesFailed{ErrorKind::kIo, "the disk is full"})};
}

}  // namespace manta::fuzz::trial_messages
