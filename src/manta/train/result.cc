#include "manta/train/controller_internal.h"
#include "manta/train/result_internal.h"

namespace manta::train {

Result result_of_run(const std::string& path, const History& history, const CheckpointStore& store,
                     RunOutcome outcome) {
  Result result;
  result.outcome = outcome;
  result.path = path;
  for (const auto& report : history.reports()) result.metrics_history.push_back(report.metrics);
  if (!result.metrics_history.empty()) result.metrics = result.metrics_history.back();
  result.rows = history.rows();
  result.best_checkpoints = store.best_checkpoints();
  auto checkpoints = history.checkpoints();
  if (!checkpoints.empty()) {
    if (auto latest = store.find(checkpoints.back())) result.checkpoint = *latest;
  }
  return result;
}

Result read_result(const std::string& path, const CheckpointConfig& config) {
  History history = train::history(read_journal(path + "/journal.jsonl"));
  RunOutcome outcome = RunOutcome::kFailed;
  for (auto each : {RunOutcome::kFinished, RunOutcome::kStopped, RunOutcome::kPaused,
                    RunOutcome::kInterrupted}) {
    if (history.outcome() == outcome_name(each)) outcome = each;
  }
  return result_of_run(path, history, CheckpointStore(path, config), outcome);
}

}  // namespace manta::train
