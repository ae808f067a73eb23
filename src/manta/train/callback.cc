#include "manta/train/callback.h"

#include <typeinfo>

#include "manta/base/error_internal.h"
#include "manta/train/callbacks_internal.h"

namespace manta {

void Callback::on_run_start(const RunInfo&) {}
void Callback::on_epoch_start(const RunInfo&, const EpochRecord&) {}
void Callback::on_epoch_end(const RunInfo&, const EpochRecord&) {}
void Callback::on_checkpoint(const RunInfo&, const Checkpoint&) {}
Decision Callback::on_report(const RunInfo&, const ReportRecord&) { return Decision::go_on(); }
void Callback::on_failure(const RunInfo&, const RunFailure&) {}
void Callback::on_run_end(const RunInfo&, RunOutcome) {}

namespace train {

void Callbacks::for_each(const char* function, const std::function<void(Callback&)>& call) const {
  std::optional<Error> first;
  for (const auto& callback : callbacks_) {
    auto fail = [&](ErrorKind kind, const char* what) {
      if (first) return;
      const Callback& it = *callback;
      first = Error(kind, str(demangle(typeid(it).name()), "::", function, ": ", what));
    };
    try {
      call(*callback);
    } catch (const Error& error) {
      fail(error.kind(), error.what());
    } catch (const std::exception& error) {
      fail(ErrorKind::kUserCode, error.what());
    } catch (...) {
      fail(ErrorKind::kUserCode, "it threw something that is no std::exception");
    }
  }
  if (first) throw *first;
}

void Callbacks::on_run_start(const RunInfo& run) const {
  for_each("on_run_start", [&](Callback& one) { one.on_run_start(run); });
}

void Callbacks::on_epoch_start(const RunInfo& run, const EpochRecord& epoch) const {
  for_each("on_epoch_start", [&](Callback& one) { one.on_epoch_start(run, epoch); });
}

void Callbacks::on_epoch_end(const RunInfo& run, const EpochRecord& epoch) const {
  for_each("on_epoch_end", [&](Callback& one) { one.on_epoch_end(run, epoch); });
}

void Callbacks::on_checkpoint(const RunInfo& run, const Checkpoint& checkpoint) const {
  for_each("on_checkpoint", [&](Callback& one) { one.on_checkpoint(run, checkpoint); });
}

Decision Callbacks::on_report(const RunInfo& run, const ReportRecord& report) const {
  Decision all;
  for_each("on_report", [&](Callback& one) {
    Decision decision = one.on_report(run, report);
    AttemptChanges& changes = decision.changes;
    bool changes_something = changes.scaling_config || changes.train_loop_config;
    if (changes_something && decision.kind != Decision::kRestart) {
      throw Error(ErrorKind::kInvalidArgument,
                  "the decision has changes, which only a restart can make: return "
                  "Decision::restart(changes)");
    }
    if (changes.scaling_config) all.changes.scaling_config = changes.scaling_config;
    if (changes.train_loop_config) all.changes.train_loop_config = changes.train_loop_config;
    all.kind = std::max(all.kind, decision.kind);
  });
  return all;
}

void Callbacks::on_failure(const RunInfo& run, const RunFailure& failure) const {
  for_each("on_failure", [&](Callback& one) { one.on_failure(run, failure); });
}

void Callbacks::on_run_end(const RunInfo& run, RunOutcome outcome) const {
  for_each("on_run_end", [&](Callback& one) { one.on_run_end(run, outcome); });
}

}  // namespace train
}  // namespace manta
