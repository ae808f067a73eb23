#include "manta/base/json_input_internal.h"
#include "manta/train/controller_internal.h"
#include "manta/train/params_internal.h"
#include "manta/tune/controller_internal.h"
#include "manta/tune/trial_json_internal.h"

namespace manta::tune {
namespace {

constexpr int64_t kMostTrials = int64_t{1} << 40;
constexpr double kMostTime = 1e15;

}  // namespace

Json to_json(const std::vector<Resources>& resources) {
  Json all = Json::array();
  for (const Resources& each : resources) all.push_back(train::resources_to_json(each));
  return all;
}

std::vector<Resources> resources_from_json(const Json& json) {
  std::vector<Resources> all;
  for (const Json& each : json)
    all.push_back(train::resources_from_json(JsonFields(each, {"the resources of a trial"})));
  return all;
}

RunOutcome outcome_from_name(const std::string& name) {
  for (auto outcome : {RunOutcome::kFinished, RunOutcome::kStopped, RunOutcome::kFailed})
    if (name == train::outcome_name(outcome)) return outcome;
  throw Error(ErrorKind::kCorrupt, str("'", name, "' is no outcome of a trial"));
}

ErrorKind kind_from_name(const std::string& name) {
  for (int kind = 0; kind <= static_cast<int>(ErrorKind::kCancelled); ++kind)
    if (name == kind_name(static_cast<ErrorKind>(kind))) return static_cast<ErrorKind>(kind);
  throw Error(ErrorKind::kCorrupt, str("'", name, "' is no kind of error"));
}

void check_event(const std::string& where, const std::string& event, const Json& details) {
  JsonFields fields(details, where, "details.");
  if (event == kInterrupted || event == kExperimentEnded) return;
  fields.integer("trial", 0, kMostTrials);
  if (event == kTrial) {
    fields.object("assignment");
    fields.any("config");
    resources_from_json(fields.array("resources"));
  } else if (event == kResult) {
    fields.integer("index", 0, kMostTrials);
    fields.object_or_null("metrics");
    fields.number("time_total_s", -kMostTime, kMostTime);
    fields.boolean("checkpoint");
    std::string decision = fields.text("decision");
    if (decision != "go_on" && decision != "stop") fields.fail("decision", "\"go_on\" or \"stop\"");
  } else if (event == kEnded) {
    RunOutcome outcome = outcome_from_name(fields.text("outcome"));
    fields.boolean("retry");
    if (outcome == RunOutcome::kFailed) {
      kind_from_name(fields.text("kind"));
      if (!fields.any("message").is_string()) fields.fail("message", "a text");
    }
  } else if (event != kStarted && event != kRevived) {
    throw Error(ErrorKind::kCorrupt, str(where, " has the unknown event '", event, "'"));
  }
}

}  // namespace manta::tune
