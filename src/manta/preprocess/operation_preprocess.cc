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

/// A fitted preprocessor as an operation of a plan: `transform_batch` on each piece, or its
/// inverse.
class Preprocess final : public data::RowOperation {
 public:
  Preprocess(AnyPreprocessor preprocessor, bool inverse)
      : preprocessor_(std::move(preprocessor)), inverse_(inverse) {
    if (inverse_ && !dynamic_cast<const Invertible*>(&*preprocessor_)) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(preprocessor_->to_string(), " has no inverse_transform"));
    }
    require_fitted(*preprocessor_);
  }

  std::string to_string() const override {
    return str(inverse_ ? "inverse_transform(" : "transform(", preprocessor_->to_string(), ")");
  }
  Json to_json(data::PlanFunctions&) const override {
    Json json = {{"op", "preprocess"}, {"preprocessor", preprocessor_->to_json()}};
    if (inverse_) json["inverse"] = true;
    return json;
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    auto empty = check(arrow::RecordBatch::MakeEmpty(before), "making a batch without rows");
    return rewritten(empty)->schema();
  }
  ColumnNames columns_needed(ColumnNames live) const override {
    if (!live) return live;
    for (auto& name : inverse_ ? preprocessor_->output_columns() : preprocessor_->input_columns()) {
      if (!data::contains(*live, name)) live->push_back(std::move(name));
    }
    return live;
  }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    return before;
  }
  // A user's preprocessor may draw random numbers.
  bool repeats() const override { return false; }
  // It may have changed any column.
  bool add_bounds(data::FileBounds&) const override { return false; }

  void run(data::Piece& piece, data::RowMask& mask, const ColumnNames&) const override {
    // A user's preprocessor may fail on rows that have been filtered out.
    mask.apply(piece);
    piece = data::to_piece(*rewritten(data::to_batch(std::move(piece))));
  }

 private:
  data::BatchPtr rewritten(const data::BatchPtr& rows) const {
    return inverse_ ? dynamic_cast<const Invertible&>(*preprocessor_).inverse_transform_batch(rows)
                    : transform_rows(*preprocessor_, rows);
  }

  const AnyPreprocessor preprocessor_;
  const bool inverse_;
};

data::OperationPtr read_preprocess(const JsonFields& fields, const data::PlanFunctions&) {
  bool inverse = fields.has("inverse") && fields.boolean("inverse");
  return std::make_shared<Preprocess>(
      AnyPreprocessor::from_json(fields.any("preprocessor"), "the plan, preprocessor"), inverse);
}

// RecordBatch::Validate, except for columns that were passed on as they came.
arrow::Status validate_new(const arrow::RecordBatch& result, const arrow::RecordBatch& rows) {
  if (result.schema() != rows.schema() || result.num_columns() != rows.num_columns()) {
    return result.Validate();
  }
  for (int i = 0; i < result.num_columns(); ++i) {
    if (result.column_data(i) == rows.column_data(i)) continue;
    const auto& column = *result.column(i);
    if (column.length() != result.num_rows() ||
        !column.type()->Equals(*result.schema()->field(i)->type())) {
      return result.Validate();  // this returns the error
    }
    ARROW_RETURN_NOT_OK(column.Validate());
  }
  return arrow::Status::OK();
}

[[noreturn]] void fail_transform(const Preprocessor& preprocessor, const std::string& what) {
  throw Error(ErrorKind::kUserCode,
              str("transform_batch of ", preprocessor.to_string(), " ", what));
}

}  // namespace

data::BatchPtr internal::transform_rows(const Preprocessor& preprocessor,
                                        const data::BatchPtr& rows) {
  data::BatchPtr result;
  try {
    result = preprocessor.transform_batch(rows);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail_transform(preprocessor, str("threw ", demangle(typeid(error).name()), ": ", error.what()));
  }
  if (!result) fail_transform(preprocessor, "returned no batch");
  if (result->num_rows() != rows->num_rows()) {
    fail_transform(preprocessor, str("made ", result->num_rows(), " rows of ", rows->num_rows(),
                                     "; a preprocessor gives one row for each: remove rows with "
                                     "Dataset::filter"));
  }
  if (auto valid = validate_new(*result, *rows); !valid.ok()) {
    fail_transform(preprocessor, str("returned a batch that is not valid: ", valid.message()));
  }
  return result;
}

bool internal::link_preprocessors() {
  static const bool registered = data::register_operation("preprocess", read_preprocess);
  return registered;
}

std::string Preprocessor::to_string() const {
  return str(name(), "(", data::join(input_columns()), ")");
}

void internal::require_fitted(const Preprocessor& preprocessor) {
  if (preprocessor.is_fitted()) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(preprocessor.to_string(), " is not fitted: call fit(dataset) first"));
}

Dataset Preprocessor::transform(const Dataset& dataset) const {
  require_fitted(*this);
  return data::then(dataset, std::make_shared<Preprocess>(
                                 AnyPreprocessor::from_json(to_json(), "a preprocessor"), false));
}

Dataset Invertible::inverse_transform(const Dataset& dataset) const {
  const auto& self = dynamic_cast<const Preprocessor&>(*this);
  require_fitted(self);
  return data::then(dataset,
                    std::make_shared<Preprocess>(
                        AnyPreprocessor::from_json(self.to_json(), "a preprocessor"), true));
}

}  // namespace manta
