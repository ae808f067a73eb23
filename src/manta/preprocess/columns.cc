#include "manta/preprocess/columns.h"

#include <arrow/api.h>

#include <algorithm>
#include <optional>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/preprocess/numbers_internal.h"

namespace manta::internal {

/// How batches of one schema are rewritten.
struct Columns::Layout {
  std::shared_ptr<arrow::Schema> before;
  std::vector<int> inputs;  // their places
  // Not known before the first batch is made.
  std::shared_ptr<arrow::Schema> after;
  std::vector<int> sources;  // of each column after: its place before, or -1 - the place in `made`
};

Columns::Columns(std::string who, std::vector<std::string> inputs, std::vector<std::string> outputs,
                 std::vector<std::string> removed)
    : who_(std::move(who)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      removed_(std::move(removed)) {
  if (inputs_.empty()) {
    throw Error(ErrorKind::kInvalidArgument, str(who_, " was given no columns"));
  }
  data::require_distinct(inputs_, who_);
  data::require_distinct(outputs_, str(who_, ", output_columns"));
}

Columns Columns::in_pairs(const std::string& who, std::vector<std::string> inputs,
                          std::vector<std::string> outputs) {
  if (outputs.empty()) outputs = inputs;
  if (outputs.size() != inputs.size()) {
    throw Error(ErrorKind::kInvalidArgument,
                str(who, " was given ", inputs.size(), " columns and ", outputs.size(),
                    " output_columns; give one for each, or none to replace the columns"));
  }
  return Columns(who, std::move(inputs), std::move(outputs));
}

Columns::Columns(const Columns& from)
    : who_(from.who_),
      inputs_(from.inputs_),
      outputs_(from.outputs_),
      removed_(from.removed_),
      last_(from.last()) {}

Columns& Columns::operator=(const Columns& from) {
  if (this == &from) return *this;
  who_ = from.who_;
  inputs_ = from.inputs_;
  outputs_ = from.outputs_;
  removed_ = from.removed_;
  keep(from.last());
  return *this;
}

std::shared_ptr<const Columns::Layout> Columns::last() const {
  std::lock_guard lock(mutex_);
  return last_;
}

void Columns::keep(std::shared_ptr<const Layout> layout) const {
  std::lock_guard lock(mutex_);
  last_ = std::move(layout);
}

void Columns::require(const arrow::Schema& schema) const {
  preprocess::places_of(inputs_, schema, who_);
}

Columns::Arrays Columns::of(const arrow::RecordBatch& batch) const {
  auto layout = last();
  if (!layout || layout->before != batch.schema()) {
    auto fresh = std::make_shared<Layout>();
    fresh->before = batch.schema();
    fresh->inputs = preprocess::places_of(inputs_, *batch.schema(), who_);
    layout = fresh;
    keep(layout);
  }
  Arrays arrays;
  arrays.reserve(inputs_.size());
  for (int place : layout->inputs) arrays.push_back(batch.column(place));
  return arrays;
}

namespace {

bool has_types(const arrow::Schema& schema, const std::vector<int>& sources,
               const Columns::Arrays& made) {
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] >= 0) continue;
    const auto& type = made[static_cast<size_t>(-1 - sources[i])]->type();
    if (!schema.field(static_cast<int>(i))->type()->Equals(*type)) return false;
  }
  return true;
}

}  // namespace

data::BatchPtr Columns::with(const data::BatchPtr& batch, Arrays made) const {
  auto layout = last();
  bool fits = layout && layout->before == batch->schema() && layout->after &&
              has_types(*layout->after, layout->sources, made);
  if (!fits) {
    auto fresh = std::make_shared<Layout>();
    fresh->before = batch->schema();
    fresh->inputs = preprocess::places_of(inputs_, *batch->schema(), who_);
    arrow::FieldVector fields;
    auto place_of = [&](const std::string& name) -> std::optional<size_t> {
      auto found = std::find(outputs_.begin(), outputs_.end(), name);
      if (found == outputs_.end()) return std::nullopt;
      return static_cast<size_t>(found - outputs_.begin());
    };
    bool changed = batch->schema()->HasMetadata();
    std::vector<bool> placed(made.size());
    for (int i = 0; i < batch->num_columns(); ++i) {
      const auto& field = batch->schema()->field(i);
      if (auto place = place_of(field->name())) {
        const auto& type = made[*place]->type();
        bool same = field->type()->Equals(*type);
        fields.push_back(same ? field : arrow::field(field->name(), type));
        fresh->sources.push_back(-1 - static_cast<int>(*place));
        placed[*place] = true;
        changed = changed || !same;
      } else if (data::contains(removed_, field->name())) {
        changed = true;
      } else {
        fields.push_back(field);
        fresh->sources.push_back(i);
      }
    }
    for (size_t i = 0; i < made.size(); ++i) {
      if (placed[i]) continue;
      fields.push_back(arrow::field(outputs_[i], made[i]->type()));
      fresh->sources.push_back(-1 - static_cast<int>(i));
      changed = true;
    }
    // The same object if nothing changes, which is usual: then columns are not looked up again.
    fresh->after = changed ? arrow::schema(std::move(fields)) : batch->schema();
    layout = fresh;
    keep(layout);
  }
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  columns.reserve(layout->sources.size());
  for (int source : layout->sources) {
    columns.push_back(source >= 0 ? batch->column_data(source)
                                  : made[static_cast<size_t>(-1 - source)]->data());
  }
  return arrow::RecordBatch::Make(layout->after, batch->num_rows(), std::move(columns));
}

void Columns::write(Json& state) const {
  state["columns"] = inputs_;
  if (outputs_ != inputs_) state["output_columns"] = outputs_;
}

Columns Columns::read(const std::string& who, const JsonFields& fields) {
  auto inputs = fields.texts("columns", data::kLongestName);
  std::vector<std::string> outputs;
  if (fields.has("output_columns")) outputs = fields.texts("output_columns", data::kLongestName);
  return in_pairs(who, std::move(inputs), std::move(outputs));
}

}  // namespace manta::internal
