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

namespace manta {
namespace data {
namespace {

class MapBatches final : public BatchOperation {
 public:
  /// `helpers`: in so many processes; 0: on the threads of this one.
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

  Batches run(const Batches& batches, const Place& place) const override {
    Batches results;
    for (auto& mapped : map(in_batches(batches, place), place)) {
      if (!mapped.error.empty()) fail(place, mapped.error);
      if (mapped.batch->num_rows() == 0) continue;
      if (!results.empty()) {
        require_same_columns(*results[0]->schema(), *mapped.batch->schema(), place);
      }
      results.push_back(std::move(mapped.batch));
    }
    return results;
  }

 private:
  Batches in_batches(const Batches& batches, const Place& place) const {
    try {
      return rechunk(batches, rows_);
    } catch (const Error& error) {
      throw Error(error.kind(), str(place.describe(), ": ", error.what()));
    }
  }

  void require_same_columns(const arrow::Schema& first, const arrow::Schema& now,
                            const Place& place) const {
    if (have_same_columns(first, now)) return;
    fail(place, str("returned batches of different columns: {", describe_columns(first),
                    "} first, then {", describe_columns(now),
                    "}; return the same names and types from every call, also for rows without "
                    "values"));
  }

  std::vector<MappedBatch> map(const Batches& batches, const Place& place) const {
    std::vector<MappedBatch> results;
    if (auto helpers = this->helpers()) {
      try {
        return helpers->map(batches, place.work);
      } catch (const Error& error) {
        throw Error(error.kind(),
                    str(function_.function_name(), " of map_batches, on ", place.describe(),
                        ", in a process of its own: ", error.what()));
      }
    }
    for (const auto& batch : batches) {
      results.push_back(map_batch(function_, batch));
      count_work(place.work);
      if (!results.back().error.empty()) break;
    }
    return results;
  }

  [[noreturn]] void fail(const Place& place, const std::string& what) const {
    throw Error(ErrorKind::kUserCode, str(function_.function_name(), " of map_batches, on ",
                                          place.describe(), ", ", what));
  }

  const PlanFunction function_;
  const int64_t rows_;
  const int helper_count_;
  mutable std::mutex mutex_;
  mutable std::weak_ptr<BatchHelpers> helpers_;  ///< Those who run the plan hold them.
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
