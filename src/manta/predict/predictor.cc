#include "manta/predict/predictor.h"

#include <arrow/record_batch.h>

#include "manta/base/error_internal.h"
#include "manta/data/operation_internal.h"

namespace manta {
namespace {

// Names all missing columns in one message, so that a client need not try again for each.
void require_once(const arrow::Schema& schema, const std::vector<std::string>& names) {
  std::vector<std::string> missing;
  for (const auto& name : names) {
    if (schema.GetFieldIndex(name) >= 0) continue;
    if (auto times = schema.GetAllFieldIndices(name).size(); times > 1) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("predict: the column '", name, "' is there ", times, " times"));
    }
    missing.push_back(name);
  }
  if (missing.empty()) return;
  throw Error(ErrorKind::kNotFound,
              str("predict: ", missing.size() == 1 ? "the column " : "the columns ",
                  data::join(missing), missing.size() == 1 ? " is" : " are",
                  " missing; the rows have: ", data::join(schema.field_names())));
}

}  // namespace

Predictor::Predictor(AnyPreprocessor preprocessor,
                     const std::vector<std::string>& feature_columns) {
  std::vector<std::string> made;
  if (preprocessor) {
    input_columns_ = preprocessor->input_columns();
    made = preprocessor->output_columns();
    preprocessor_ = std::make_shared<const AnyPreprocessor>(std::move(preprocessor));
  }
  for (const auto& name : feature_columns) {
    if (data::contains(made, name) || data::contains(input_columns_, name)) continue;
    input_columns_.push_back(name);
  }
}

data::BatchPtr Predictor::predict(const data::BatchPtr& rows) const {
  if (!rows) throw Error(ErrorKind::kInvalidArgument, "predict: no batch was given");
  require_once(*rows->schema(), input_columns_);
  auto predictions = predict_features(preprocessor_ ? transform_rows(**preprocessor_, rows) : rows);
  if (!predictions || predictions->num_rows() != rows->num_rows() ||
      predictions->schema()->GetFieldIndex("predictions") < 0) {
    throw Error(ErrorKind::kUserCode,
                str(demangle(typeid(*this).name()), "::predict_features must return one row for ",
                    "each of ", rows->num_rows(), " rows, with a column 'predictions' (returned ",
                    predictions ? str(predictions->num_rows(), " rows of ",
                                      data::join(predictions->schema()->field_names()))
                                : "no batch",
                    ")"));
  }
  return predictions;
}

}  // namespace manta
