#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"

namespace manta {
namespace data {
namespace {

/// Says how many epochs there are, and leaves the rows of each as they are.
class Repeat final : public RowOperation {
 public:
  explicit Repeat(int64_t times) : times_(times) {}

  int64_t times() const { return times_; }

  std::string to_string() const override {
    return times_ == kEndlessly ? std::string("repeat()") : str("repeat(", times_, ")");
  }
  Json to_json(PlanFunctions&) const override { return {{"op", "repeat"}, {"times", times_}}; }
  void check_after(const Plan& plan) const override {
    if (!epochs_of(plan)) return;
    throw Error(ErrorKind::kInvalidArgument,
                str(to_string(), " of a data set that is repeated already: repeat it once"));
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    return before;
  }
  bool add_bounds(FileBounds&) const override { return true; }
  bool repeats() const override { return true; }
  void run(Piece&, RowMask&, const ColumnNames&) const override {}

 private:
  const int64_t times_;
};

}  // namespace

std::optional<int64_t> epochs_of(const Plan& plan) {
  for (const auto& operation : plan.operations) {
    if (auto* repeat = dynamic_cast<const Repeat*>(operation.get())) return repeat->times();
  }
  return std::nullopt;
}

OperationPtr read_repeat(const JsonFields& fields, const PlanFunctions&) {
  int64_t times = fields.integer("times", kEndlessly, kMaxRows);
  if (times == 0) fields.fail("times", "the number of epochs, or -1");
  return std::make_shared<Repeat>(times);
}

}  // namespace data

Dataset Dataset::repeat() const {
  return then(*this, std::make_shared<data::Repeat>(data::kEndlessly));
}

Dataset Dataset::repeat(int64_t times) const {
  if (times < 1 || times > data::kMaxRows) {
    throw Error(
        ErrorKind::kInvalidArgument,
        str("repeat needs a number of times of at least 1, not ", times, "; repeat() has no end"));
  }
  return then(*this, std::make_shared<data::Repeat>(times));
}

}  // namespace manta
