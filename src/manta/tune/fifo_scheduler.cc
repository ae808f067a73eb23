#include "manta/tune/scheduler.h"

namespace manta::tune {
namespace {

class Fifo final : public Scheduler {
 public:
  Verdict on_result(const TrialInfo&, const Json&) override { return Verdict::kGoOn; }
  void on_complete(const TrialInfo&, const Json&) override {}
};

}  // namespace

AnyScheduler::AnyScheduler(FIFOScheduler)
    : name_("FIFOScheduler"),
      make_([](const Objective&) { return std::make_unique<Fifo>(); }),
      json_({{"name", "FIFOScheduler"}}) {}

}  // namespace manta::tune
