// The messages of a training process to the driver, Join first, and those of the driver to it.

#include <manta/train/messages_internal.h>

#include "messages.h"
#include "target.h"

namespace manta::fuzz::group_messages {

void run(std::string_view input) {
  using namespace train;
  if (input.empty()) return;
  bool to_member = input[0] != 0;
  input.remove_prefix(1);
  to_member ? decode_input<ToMember>(input) : decode_input<FromMember>(input);
}

std::vector<std::string> seeds() {
  using namespace train;
  SendReport report;
  report.metrics = {{"loss", 0.5}};
  report.positions = {{"train", data::Position().to_json()}};
  StoreRequest request;
  request.keys = {"a", "b"};
  BeginTraining begin;
  begin.world_size = 2;
  begin.datasets["train"] = {};
  std::string from(1, '\0'), to(1, '\1');
  return {from + input_of<FromMember>(Join{"token", 1, 0}),
          from + input_of<FromMember>(report),
          from + input_of<FromMember>(SendFiles{1, {{"model.safetensors", 8, "00"}}}),
          from + input_of<FromMember>(SendFailure{}),
          from + input_of<FromMember>(request),
          to + input_of<ToMember>(begin),
          to + input_of<ToMember>(Acknowledged{3, true})};
}

}  // namespace manta::fuzz::group_messages
