#include <arrow/api.h>

#include <algorithm>
#include <mutex>

#include "manta/base/error_internal.h"
#include "manta/data/batch_helpers_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_function.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/row_bytes_internal.h"

namespace manta {
namespace data {
namespace {

// The helpers are called once this many bytes wait (and a batch for each process), or
// kBatchesOfHelper batches for each process.
constexpr int64_t kBytesForHelpers = 32 << 20;
constexpr size_t kBatchesOfHelper = 8;

class MapBatches final : public FlowOperation {
 public:
  /// `helpers`: the number of processes; 0: on the threads of this process.
  MapBatches(PlanFunction function, int64_t rows, int helpers)
      : function_(std::move(function)), rows_(rows), helper_count_(helpers) {}

  std::string to_string() const override {
    return str("map_batches(", function_.to_string(), ", batch_size = ", rows_,
               helper_count_ == 0 ? std::string() : str(", concurrency = ", helper_count_), ")");
  }
  Json to_json(PlanFunctions& functions) const override {
    functions.push_back(function_);
    Json json = {{"op", "map_batches"}, {"function", functions.size() - 1}, {"rows", rows_}};
    if (helper_count_ > 0) json["concurrency"] = helper_count_;
    return json;
  }
  void check_after(const Plan&) const override {}
  SchemaPtr schema_after(const SchemaPtr&) const override { return nullptr; }
  ColumnNames columns_needed(ColumnNames) const override { return std::nullopt; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t>) const override {
    return std::nullopt;
  }
  bool may_add_rows() const override { return true; }
  bool add_bounds(FileBounds&) const override { return false; }

  std::shared_ptr<BatchHelpers> helpers() const override {
    if (helper_count_ == 0) return nullptr;
    std::lock_guard lock(mutex_);
    auto helpers = helpers_.lock();
    if (!helpers) {
      helpers = std::make_shared<BatchHelpers>(function_, helper_count_);
      helpers_ = helpers;
    }
    return helpers;
  }

  std::unique_ptr<Flow> begin(const Place& place) const override {
    return std::make_unique<Calls>(*this, place);
  }

 private:
  /// Calls the function with the rows of one fragment.
  class Calls final : public Flow {
   public:
    Calls(const MapBatches& of, const Place& place)
        : of_(of), place_(place), helpers_(of.helpers()), batches_(of.rows_) {}

    void add(const std::shared_ptr<arrow::RecordBatch>& batch, const TakeBatch& take) override {
      for (auto& each : naming_place(place_, [&] { return batches_.add(batch); }))
        call(std::move(each), take);
    }
    void finish(const TakeBatch& take) override {
      if (auto rest = naming_place(place_, [&] { return batches_.rest(); }))
        call(std::move(rest), take);
      if (helpers_) call_helpers(take);
    }

   private:
    void call(BatchPtr batch, const TakeBatch& take) {
      if (!helpers_) {
        auto mapped = map_batch(of_.function_, batch);
        count_work(place_.work);
        return give(std::move(mapped), take);
      }
      waiting_bytes_ += bytes_of_batch(*batch);
      waiting_.push_back(std::move(batch));
      // Each process gets some batches, so that none waits for the others.
      auto processes = static_cast<size_t>(helpers_->count());
      bool enough = waiting_bytes_ >= kBytesForHelpers && waiting_.size() >= processes;
      if (enough || waiting_.size() >= kBatchesOfHelper * processes) call_helpers(take);
    }

    void call_helpers(const TakeBatch& take) {
      std::vector<MappedBatch> mapped;
      try {
        mapped = helpers_->map(waiting_, place_.work);
      } catch (const Error& error) {
        throw Error(error.kind(),
                    str(of_.function_.function_name(), " of map_batches, on ", place_.describe(),
                        ", in a process of its own: ", error.what()));
      }
      waiting_.clear();
      waiting_bytes_ = 0;
      for (auto& each : mapped) give(std::move(each), take);
    }

    void give(MappedBatch mapped, const TakeBatch& take) {
      if (!mapped.error.empty()) fail(mapped.error);
      if (mapped.batch->num_rows() == 0) return;
      if (!columns_) columns_ = mapped.batch->schema();
      if (!have_same_columns(*columns_, *mapped.batch->schema())) {
        fail(str("returned batches of different columns: {", describe_columns(*columns_),
                 "} first, then {", describe_columns(*mapped.batch->schema()),
                 "}; return the same names and types from every call, also for rows without "
                 "values"));
      }
      take(std::move(mapped.batch));
    }

    [[noreturn]] void fail(const std::string& what) const {
      throw Error(ErrorKind::kUserCode, str(of_.function_.function_name(), " of map_batches, on ",
                                            place_.describe(), ", ", what));
    }

    const MapBatches& of_;
    const Place& place_;
    const std::shared_ptr<BatchHelpers> helpers_;
    Rechunk batches_;
    Batches waiting_;  // for helpers
    int64_t waiting_bytes_ = 0;
    SchemaPtr columns_;  // of the batches that the function has returned
  };

  const PlanFunction function_;
  const int64_t rows_;
  const int helper_count_;
  mutable std::mutex mutex_;
  mutable std::weak_ptr<BatchHelpers> helpers_;  ///< The code that runs the plan holds them.
};

}  // namespace

OperationPtr read_map_batches(const JsonFields& fields, const PlanFunctions& functions) {
  if (functions.empty()) fields.fail("function", "the number of a function: the plan has none");
  auto last = static_cast<int64_t>(functions.size()) - 1;
  auto index = static_cast<size_t>(fields.integer("function", 0, last));
  int helpers = fields.has("concurrency")
                    ? static_cast<int>(fields.integer("concurrency", 1, kMaxHelpers))
                    : 0;
  return std::make_shared<MapBatches>(functions[index], fields.integer("rows", 1, kMaxRows),
                                      helpers);
}

}  // namespace data

Dataset Dataset::map_function(data::PlanFunction function, const MapBatchesOptions& options) const {
  if (options.batch_size < 1 || options.batch_size > data::kMaxRows) {
    throw Error(ErrorKind::kInvalidArgument,
                str("map_batches needs a batch_size of at least 1 and at most ", data::kMaxRows,
                    ", not ", options.batch_size));
  }
  if (options.concurrency < 0 || options.concurrency > data::kMaxHelpers) {
    throw Error(ErrorKind::kInvalidArgument,
                str("map_batches needs a concurrency of at least 1 and at most ", data::kMaxHelpers,
                    " processes, or 0 for threads, not ", options.concurrency));
  }
  return then(*this, std::make_shared<data::MapBatches>(std::move(function), options.batch_size,
                                                        options.concurrency));
}

Dataset Dataset::map_batches(data::BatchFunction function, const MapBatchesOptions& options) const {
  if (!function) {
    throw Error(ErrorKind::kInvalidArgument, "map_batches needs a function, not a null pointer");
  }
  return map_function(data::detail::make_plan_function(function, {}), options);
}

}  // namespace manta
