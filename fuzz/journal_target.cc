// journal.jsonl of a run folder.

#include <manta/train/journal_internal.h>

#include "target.h"

namespace manta::fuzz::journal {

void run(std::string_view input) {
  auto events = train::read_journal(scratch_file("journal.jsonl", input));
  auto history = train::history(events);
  history.checkpoints();
}

std::vector<std::string> seeds() {
  return {
      R"({"time":1.5,"attempt":0,"event":"attempt_started","details":{"checkpoint":null,"next_report":0}}
{"time":2.5,"attempt":0,"event":"report","details":{"index":0,"metrics":{"loss":1.25},"positions":{},"checkpoint":"checkpoint_000000"}}
{"time":3.5,"attempt":0,"event":"attempt_failed","details":{"rank":1,"kind":"worker lost","message":"gone","restart":true}}
{"time":4.5,"attempt":1,"event":"attempt_started","details":{"checkpoint":0,"next_report":1}}
{"time":5.5,"attempt":1,"event":"run_ended","details":{"outcome":"finished"}}
)"};
}

}  // namespace manta::fuzz::journal
