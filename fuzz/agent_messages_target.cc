// The first message on a connection between hosts, and the messages between driver and agents.

#include <manta/core/node_messages_internal.h>

#include "messages.h"
#include "target.h"

namespace manta::fuzz::agent_messages {

void run(std::string_view input) {
  if (input.empty()) return;
  char from = input[0];
  input.remove_prefix(1);
  if (from == 0) decode_input<FirstWord>(input);
  if (from == 1) decode_input<ToAgent>(input);
  if (from == 2) decode_input<FromAgent>(input);
}

std::vector<std::string> seeds() {
  std::string first(1, '\0'), to(1, '\1'), from(1, '\2');
  AgentHello hello;
  hello.started_as = "n1";
  hello.node = {0, "n1", "10.0.0.5:4711", {.cpus = 4, .custom = {{"license", 2}}}, {{"zone", "a"}}};
  ProcessSpec spec;
  spec.name = "worker-1";
  spec.log_path = "/tmp/log";
  ProcessExit exit;
  exit.process = 3;
  exit.log_tail = "last words";
  return {first + input_of<FirstWord>(hello),
          first + input_of<FirstWord>(Hello{"token", {}, 3}),
          first + input_of<FirstWord>(ReadMemory{7, 1 << 20}),
          to + input_of<ToAgent>(AgentWelcome{1, 10'000, true, true}),
          to + input_of<ToAgent>(AgentRejected{"it is of another build"}),
          to + input_of<ToAgent>(AgentPing{}),
          to + input_of<ToAgent>(AgentStart{{{3, spec}, {4, spec}}, {4}}),
          to + input_of<ToAgent>(AgentKill{3}),
          to + input_of<ToAgent>(AgentFetch{1, 7, 1 << 20, "10.0.0.5:4711"}),
          to + input_of<ToAgent>(AgentDrop{7}),
          to + input_of<ToAgent>(AgentEnd{}),
          from + input_of<FromAgent>(AgentPong{}),
          from + input_of<FromAgent>(AgentStarted{3, 4711}),
          from + input_of<FromAgent>(AgentStartFailed{{3, 4}, "fork failed"}),
          from + input_of<FromAgent>(exit),
          from + input_of<FromAgent>(AgentFetched{1, ""}),
          from + input_of<FromAgent>(AgentOutput{"(worker-1) hello\n"}),
          from + input_of<FromAgent>(AgentDraining{"it received SIGTERM"}),
          from + input_of<FromAgent>(AgentLog{3, "raw bytes"})};
}

}  // namespace manta::fuzz::agent_messages
