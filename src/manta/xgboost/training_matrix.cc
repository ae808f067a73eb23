#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <cmath>

#include "manta/data/operation_internal.h"
#include "manta/data/shard_internal.h"
#include "manta/xgboost/c_api_internal.h"
#include "manta/xgboost/float_rows_internal.h"
#include "manta/xgboost/training_matrix_internal.h"

namespace manta::xgboost {
namespace {

// Each worker takes this many rows at a time: some pieces of the data reader's.
constexpr int64_t kRowsPerStep = 64 * 1024;

std::string named_set(const std::string& dataset) { return "data set '" + dataset + "'"; }

// A worker's rows in the form that the library takes: all in one batch, which it may read several
// times.
struct Rows {
  Rows(const TrainingColumns& columns, std::string dataset)
      : features(columns.features, named_set(dataset), /*warns=*/true),
        label(columns.label),
        name(std::move(dataset)) {}

  void append(const data::StepSlice& slice) {
    int64_t row = slice.first_row;
    for (const auto& part : slice.parts) {
      features.append(*part.batch, part.offset, part.rows, row);
      append_labels(part, row);
      row += part.rows;
    }
  }

  void append_labels(const data::StepSlice::Part& part, int64_t first_row) {
    auto column = part.batch->GetColumnByName(label);
    size_t before = labels.size();
    labels.resize(before + static_cast<size_t>(part.rows));
    write_floats(*column->data(), part.offset, part.rows, labels.data() + before, 1);
    for (size_t i = before; i < labels.size(); ++i) {
      if (!std::isnan(labels[i])) continue;
      throw Error(ErrorKind::kInvalidArgument,
                  str("the label column '", label, "' of ", named_set(name),
                      " is null or NaN in row ", first_row + static_cast<int64_t>(i - before),
                      ": leave such rows out with drop_na({\"", label, "\"})"));
    }
  }

  std::string features_interface() const {
    return array_interface(features.data(), features.rows(), features.columns());
  }
  void give_labels(void* matrix) const {
    check_call(XGDMatrixSetInfoFromInterface(
                   matrix, "label",
                   array_interface(labels.data(), static_cast<int64_t>(labels.size())).c_str()),
               "giving labels to the library");
  }
  void give() {
    check_call(XGProxyDMatrixSetDataDense(proxy, features_interface().c_str()),
               "giving rows to the library");
    give_labels(proxy);
  }

  FloatRows features;
  std::vector<float> labels;
  std::string label;
  std::string name;
  void* proxy = nullptr;
  bool given = false;
};

int next_rows(void* iterator) {
  auto& rows = *static_cast<Rows*>(iterator);
  if (std::exchange(rows.given, true)) return 0;
  rows.give();
  return 1;
}

void first_rows(void* iterator) { static_cast<Rows*>(iterator)->given = false; }

MatrixHandle binned_matrix(Rows& rows, void* reference, const MatrixOptions& options,
                           const std::string& making) {
  check_call(XGProxyDMatrixCreate(&rows.proxy), making);
  MatrixHandle proxy(rows.proxy);
  std::string config =
      str(R"({"missing":NaN,"nthread":)", options.threads,
          options.max_bin.empty() ? "" : str(R"(,"max_bin":)", options.max_bin), "}");
  void* matrix = nullptr;
  check_call(XGQuantileDMatrixCreateFromCallback(&rows, rows.proxy, reference, &first_rows,
                                                 &next_rows, config.c_str(), &matrix),
             making);
  return MatrixHandle(matrix);
}

MatrixHandle plain_matrix(const Rows& rows, const MatrixOptions& options,
                          const std::string& making) {
  void* matrix = nullptr;
  check_call(XGDMatrixCreateFromDense(
                 rows.features_interface().c_str(),
                 str(R"({"missing":NaN,"nthread":)", options.threads, "}").c_str(), &matrix),
             making);
  MatrixHandle made(matrix);
  rows.give_labels(matrix);
  return made;
}

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += str(text.empty() ? "'" : ", '", name, "'");
  return text;
}

}  // namespace

TrainingColumns TrainingColumns::of(const arrow::Schema& train, const std::string& label) {
  TrainingColumns columns;
  columns.label = label;
  bool has_label = false;
  for (const auto& name : train.field_names()) {
    if (name == label) {
      has_label = true;
    } else {
      columns.features.push_back(feature_column(train, name));
    }
  }
  if (!has_label) {
    throw Error(ErrorKind::kNotFound,
                str("the label column '", label, "' is not in data set 'train', which has ",
                    quoted(train.field_names())));
  }
  if (columns.features.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("data set 'train' has no column but the label, '", label, "'"));
  }
  require_number_columns(train, train.field_names(), named_set("train"));
  if (feature_column(train, label).width > 0) {
    throw Error(ErrorKind::kInvalidArgument,
                str("the label column '", label, "' holds vectors; a label is one number a row"));
  }
  feature_names(columns.features);
  return columns;
}

void TrainingColumns::require_same(const arrow::Schema& schema, const std::string& dataset) const {
  auto there = schema.field_names();
  std::vector<std::string> mine;
  for (const auto& feature : features) mine.push_back(feature.name);
  mine.push_back(label);
  std::vector<std::string> missing, more;
  for (const auto& name : mine) {
    if (!data::contains(there, name)) missing.push_back(name);
  }
  for (const auto& name : there) {
    if (!data::contains(mine, name)) more.push_back(name);
  }
  if (!missing.empty() || !more.empty()) {
    std::string what;
    if (!missing.empty()) what += str(named_set(dataset), " lacks ", quoted(missing));
    if (!more.empty()) {
      what += str(what.empty() ? named_set(dataset) : ", and", " has ", quoted(more),
                  ", which 'train' has not");
    }
    throw Error(ErrorKind::kInvalidArgument, str("the data sets 'train' and '", dataset,
                                                 "' must have the same columns: ", what));
  }
  require_number_columns(schema, mine, named_set(dataset));
  for (const auto& feature : features) {
    if (feature_column(schema, feature.name) == feature) continue;
    throw Error(ErrorKind::kInvalidArgument,
                str("the column '", feature.name, "' of ", named_set(dataset), " is of type ",
                    schema.GetFieldByName(feature.name)->type()->ToString(),
                    ", and in 'train' it has vectors of another length"));
  }
}

TrainingMatrix::TrainingMatrix(const DataShard& shard, const std::string& label,
                               TrainingColumns& columns, const TrainingMatrix* reference,
                               const MatrixOptions& options)
    : name_(shard.name()) {
  auto pass = shard.begin_first_epoch({.batch_size = kRowsPerStep});
  std::unique_ptr<Rows> rows;
  for (data::StepSlice slice; pass->next(&slice);) {
    if (!rows) {
      const auto& schema = *slice.parts.at(0).batch->schema();
      if (reference) {
        columns.require_same(schema, name_);
      } else {
        columns = TrainingColumns::of(schema, label);
      }
      rows = std::make_unique<Rows>(columns, name_);
    }
    rows->append(slice);
  }
  MANTA_CHECK(rows, "a pass without a step");
  std::string making = str("making a matrix of data set '", name_, "'");
  if (options.binned) {
    handle_ = binned_matrix(*rows, reference ? reference->handle() : nullptr, options, making);
  } else {
    handle_ = plain_matrix(*rows, options, making);
  }
}

}  // namespace manta::xgboost
