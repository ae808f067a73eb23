#include <arrow/api.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/predict/operation_predict_internal.h"

namespace manta {
namespace {

using data::ColumnNames;
using data::SchemaPtr;

// How an unnamed predictor travels in a plan: as the arguments of this function.
data::BatchPtr predict_rows(const data::BatchPtr& rows, const PredictorRef& predictor) {
  return predictor.get().predict(rows);
}

/// A predictor as an operation of a plan.
class Predict final : public data::RowOperation {
 public:
  Predict(PredictorRef predictor, BatchPredictOptions options)
      : predictor_(std::move(predictor)), options_(std::move(options)) {}

  std::string to_string() const override {
    return str("predict(", predictor_.factory().to_string(), ", '", predictor_.checkpoint(),
               "', batch_size = ", options_.batch_size, ")");
  }

  Json to_json(data::PlanFunctions& functions) const override {
    Json json = {{"op", "predict"},
                 {"keep_columns", options_.keep_columns},
                 {"batch_size", options_.batch_size}};
    if (predictor_.why_not_stored().empty()) {
      json["predictor"] = predictor_.factory().name();
      json["checkpoint"] = predictor_.checkpoint();
    } else {
      functions.push_back(data::detail::make_plan_function(&predict_rows, to_value(predictor_)));
      json["function"] = functions.size() - 1;
    }
    return json;
  }

  // A user's predictor may draw random numbers.
  bool repeats() const override { return false; }

  SchemaPtr schema_after(const SchemaPtr& before) const override {
    auto names = before->field_names();
    data::require_columns(options_.keep_columns, names, *this);
    auto empty = check(arrow::RecordBatch::MakeEmpty(before), "making a batch without rows");
    try {
      return predict(empty)->schema();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUserCode) throw;
      return nullptr;  // the model needs rows: its columns are known when there are some
    }
  }

  ColumnNames columns_needed(ColumnNames live) const override {
    std::vector<std::string> needed = predictor_.get().input_columns();
    for (const auto& name : options_.keep_columns) {
      if ((!live || data::contains(*live, name)) && !data::contains(needed, name)) {
        needed.push_back(name);
      }
    }
    return needed;
  }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    return before;
  }
  // Columns of the result may have the names of others.
  bool add_bounds(data::FileBounds&) const override { return false; }

  void run(data::Piece& piece, data::RowMask& mask, const ColumnNames& live) const override {
    mask.apply(piece);
    auto rows = data::to_batch(std::move(piece));
    data::Batches parts;
    for (int64_t row = 0; row < rows->num_rows(); row += options_.batch_size) {
      parts.push_back(predict(rows->Slice(row, options_.batch_size), live));
    }
    piece = data::to_piece(parts.empty() ? *predict(rows, live) : *data::concatenate(parts));
  }

 private:
  data::BatchPtr predict(const data::BatchPtr& rows, const ColumnNames& live = {}) const {
    auto predictions = predictor_.get().predict(rows);
    arrow::FieldVector fields;
    arrow::ArrayVector columns;
    for (const auto& name : options_.keep_columns) {
      if (live && !data::contains(*live, name)) continue;
      int place = rows->schema()->GetFieldIndex(name);
      if (place < 0) {
        throw Error(ErrorKind::kNotFound,
                    str("in ", to_string(), ": ",
                        data::no_such_column(name, rows->schema()->field_names())));
      }
      fields.push_back(rows->schema()->field(place));
      columns.push_back(rows->column(place));
    }
    for (int i = 0; i < predictions->num_columns(); ++i) {
      const auto& field = predictions->schema()->field(i);
      if (data::contains(options_.keep_columns, field->name())) {
        throw Error(ErrorKind::kInvalidArgument,
                    str("in ", to_string(), ": keep_columns has '", field->name(),
                        "', which is a column of the predictions: give it another name before"));
      }
      fields.push_back(field);
      columns.push_back(predictions->column(i));
    }
    return arrow::RecordBatch::Make(arrow::schema(fields), rows->num_rows(), std::move(columns));
  }

  const PredictorRef predictor_;
  const BatchPredictOptions options_;
};

void check_options(const BatchPredictOptions& options) {
  if (options.batch_size < 1 || options.batch_size > data::kMaxRows) {
    throw Error(ErrorKind::kInvalidArgument,
                str("predict needs a batch_size of at least 1 and at most ", data::kMaxRows,
                    ", not ", options.batch_size));
  }
  data::require_distinct(options.keep_columns, "keep_columns of predict");
}

data::OperationPtr read_predict(const JsonFields& fields, const data::PlanFunctions& functions) {
  BatchPredictOptions options;
  options.keep_columns = fields.texts("keep_columns", data::kLongestName);
  options.batch_size = fields.integer("batch_size", 1, data::kMaxRows);
  check_options(options);
  if (!fields.has("function")) {
    return std::make_shared<Predict>(
        PredictorRef(PredictorFactory::from_name(fields.text("predictor")),
                     fields.text("checkpoint")),
        std::move(options));
  }
  auto last = static_cast<int64_t>(functions.size()) - 1;
  auto index = static_cast<size_t>(fields.integer("function", 0, last));
  const auto* predictor = functions[index].args<PredictorRef>();
  if (!predictor) fields.fail("function", "the number of a function that predicts");
  return std::make_shared<Predict>(*predictor, std::move(options));
}

}  // namespace

bool internal::link_predict_operation() {
  static const bool registered = data::register_operation("predict", read_predict);
  return registered;
}

Dataset then_predict(const Dataset& dataset, const PredictorRef& predictor,
                     const BatchPredictOptions& options) {
  check_options(options);
  return data::then(dataset, std::make_shared<Predict>(predictor, options));
}

}  // namespace manta
