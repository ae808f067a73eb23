// experiment.json and journal.jsonl of an experiment's folder: the input is the first, a line "--",
// and the second.

#include <manta/train/journal_internal.h>
#include <manta/tune/controller_internal.h>
#include <manta/tune/settings_internal.h>
#include <manta/tune/space_internal.h>
#include <manta/tune/trial_json_internal.h>

#include "target.h"

namespace manta::fuzz::experiment {

void run(std::string_view input) {
  size_t cut = std::min(input.find("\n--\n"), input.size());
  Json json = parse_json(input.substr(0, cut), "experiment.json");
  tune::Settings settings = tune::settings_from("folder", json, {}, {});
  tune::Space space = tune::space_from("folder", json);
  tune::grid_size(space);
  auto searcher = settings.config.search_alg.make({space, {}, settings.config.num_samples, 1});
  auto scheduler = settings.config.scheduler.make({"m", false});
  tune::Controller controller({}, *searcher, *scheduler);
  std::string_view journal = input.substr(std::min(cut + 4, input.size()));
  for (const auto& event : train::read_journal(scratch_file("journal.jsonl", journal))) {
    tune::check_event("a line", event.event, event.details);
    controller.replay(event.attempt, event.event, event.details);
  }
  controller.begin();
  for (const tune::Trial& trial : controller.trials()) tune::resolve(space, trial.assignment);
}

std::vector<std::string> seeds() {
  tune::Settings settings;
  settings.trainable = "function";
  settings.space = {{"x", tune::uniform(0, 1)}, {"c", tune::choice<tune::Space>({{{"n", 1}}})}};
  settings.config.scheduler = tune::ASHAScheduler{.max_t = 3};
  settings.config.metric = "m";
  settings.config.mode = "min";
  return {tune::to_json(settings).dump() + R"(
--
{"time":1,"attempt":0,"event":"trial","details":{"trial":0,"assignment":{"x":0.5,"c":0},"config":{},"resources":[{"cpus":1.0,"gpus":0.0,"memory":0,"custom":[]}]}}
{"time":2,"attempt":0,"event":"started","details":{"trial":0}}
{"time":3,"attempt":0,"event":"result","details":{"trial":0,"index":0,"metrics":{"m":1.5},"time_total_s":1,"checkpoint":false,"decision":"go_on"}}
{"time":4,"attempt":0,"event":"ended","details":{"trial":0,"outcome":"failed","kind":"io","message":"full","retry":false}}
{"time":5,"attempt":0,"event":"revived","details":{"trial":0}}
)"};
}

}  // namespace manta::fuzz::experiment
