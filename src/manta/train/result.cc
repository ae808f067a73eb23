#include "manta/core/session_folder_internal.h"
#include "manta/train/controller_internal.h"
#include "manta/train/remote_run_internal.h"
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

namespace {

/// Checkpoints at an address, whose files are not fetched.
class CopiesToRead final : public CheckpointCopies {
 public:
  explicit CopiesToRead(const RemoteAddress& run) : found_(RemoteRun::checkpoints(run)) {}
  std::map<int64_t, Checkpoint> find_copies(const std::map<int64_t, Checkpoint>&) override {
    return found_;
  }
  void fetch(int64_t, const std::string&) override {}
  void committed(int64_t, const std::string&) override {}
  void discarded(int64_t) override {}

 private:
  const std::map<int64_t, Checkpoint> found_;
};

Result result_in(const std::string& folder, const std::string& path, const CheckpointConfig& config,
                 CheckpointCopies* copies) {
  History history = train::history(read_journal(folder + "/journal.jsonl"));
  RunOutcome outcome = RunOutcome::kFailed;
  for (auto each : {RunOutcome::kFinished, RunOutcome::kStopped, RunOutcome::kPaused,
                    RunOutcome::kInterrupted}) {
    if (history.outcome() == outcome_name(each)) outcome = each;
  }
  Result result = result_of_run(path, history, CheckpointStore(folder, config, copies), outcome);
  if (outcome == RunOutcome::kFailed) result.error = history.failure();
  return result;
}

}  // namespace

Result read_result(const std::string& path, const CheckpointConfig& config) {
  auto address = remote_address(path);
  if (!address) return result_in(path, path, config, nullptr);
  auto folder = new_temporary_folder("result");
  RemoteRun::download_journal(*address, *folder);
  CopiesToRead copies(*address);
  return result_in(*folder, address->text(), config, &copies);
}

}  // namespace manta::train
