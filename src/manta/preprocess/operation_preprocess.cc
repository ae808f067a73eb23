#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/preprocess/preprocessor.h"

namespace manta {
namespace {

using data::ColumnNames;
using data::SchemaPtr;

/// A fitted preprocessor as an operation of a plan: `transform_batch` on each piece.
class Preprocess final : public data::RowOperation {
 public:
  explicit Preprocess(AnyPreprocessor preprocessor) : preprocessor_(std::move(preprocessor)) {}

  std::string to_string() const override {
    return str("transform(", preprocessor_->to_string(), ")");
  }
  Json to_json(data::PlanFunctions&) const override {
    return {{"op", "preprocess"}, {"preprocessor", preprocessor_->to_json()}};
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    auto empty = check(arrow::RecordBatch::MakeEmpty(before), "making a batch without rows");
    return transform(empty)->schema();
  }
  ColumnNames columns_needed(ColumnNames live) const override {
    if (!live) return live;
    for (auto& name : preprocessor_->input_columns()) {
      if (!data::contains(*live, name)) live->push_back(std::move(name));
    }
    return live;
  }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    return before;
  }
  // It may have changed any column.
  bool add_bounds(data::FileBounds&) const override { return false; }

  void run(data::Piece& piece, data::RowMask& mask, const ColumnNames&) const override {
    // A preprocessor of the user's may fail on rows that are not there any more.
    mask.apply(piece);
    piece = data::to_piece(*transform(data::to_batch(std::move(piece))));
  }

 private:
  data::BatchPtr transform(const data::BatchPtr& batch) const {
    data::BatchPtr result;
    try {
      result = preprocessor_->transform_batch(batch);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      fail(str("threw ", demangle(typeid(error).name()), ": ", error.what()));
    }
    if (!result) fail("returned no batch");
    if (result->num_rows() != batch->num_rows()) {
      fail(str("made ", result->num_rows(), " rows of ", batch->num_rows(),
               "; a preprocessor gives one row for each: remove rows with Dataset::filter"));
    }
    if (auto valid = result->Validate(); !valid.ok()) {
      fail(str("returned a batch that is not valid: ", valid.message()));
    }
    return result;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kUserCode,
                str("transform_batch of ", preprocessor_->to_string(), " ", what));
  }

  const AnyPreprocessor preprocessor_;
};

data::OperationPtr read_preprocess(const JsonFields& fields, const data::PlanFunctions&) {
  return std::make_shared<Preprocess>(
      AnyPreprocessor::from_json(fields.any("preprocessor"), "the plan, preprocessor"));
}

}  // namespace

bool internal::link_preprocessors() {
  static const bool registered = data::register_operation("preprocess", read_preprocess);
  return registered;
}

std::string Preprocessor::to_string() const {
  return str(name(), "(", data::join(input_columns()), ")");
}

Dataset Preprocessor::transform(const Dataset& dataset) const {
  if (!is_fitted()) {
    throw Error(ErrorKind::kInvalidArgument,
                str(to_string(), " is not fitted: call fit(dataset) before transform"));
  }
  return data::then(dataset, std::make_shared<Preprocess>(
                                 AnyPreprocessor::from_json(to_json(), "a preprocessor")));
}

}  // namespace manta
