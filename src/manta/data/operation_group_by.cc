#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/aggregate_internal.h"
#include "manta/data/custom_groups_internal.h"
#include "manta/data/dealt_rows_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/group_sums_internal.h"
#include "manta/data/grouped.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/row_store_internal.h"
#include "manta/data/stored_reader_internal.h"
#include "manta/data/wide_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

/// A row for each group, or one row for all if there are no keys.
class GroupBy final : public MaterialisingOperation {
 public:
  GroupBy(std::vector<std::string> keys, std::vector<Aggregate> aggregates, int64_t memory)
      : keys_(std::move(keys)),
        aggregates_(std::move(aggregates)),
        memory_(memory),
        custom_(keys_, select(aggregates_, true), to_string()),
        plain_(select(aggregates_, false)) {
    std::vector<std::string> names = keys_;
    for (const auto& aggregate : aggregates_) names.push_back(aggregate.name());
    require_distinct(names, to_string());
  }

  std::string to_string() const override {
    std::vector<std::string> names;
    for (const auto& aggregate : aggregates_) names.push_back(aggregate.name());
    std::string all = join(names);
    if (keys_.empty()) return str("aggregate(", all, ")");
    return str("groupby(", join(keys_), ")", all.empty() ? "" : str(".aggregate(", all, ")"));
  }
  Json to_json(PlanFunctions& functions) const override {
    Json list = Json::array();
    for (const auto& aggregate : aggregates_) {
      list.push_back(aggregate_to_json(aggregate, functions));
    }
    return {
        {"op", "group_by"}, {"keys", keys_}, {"aggregates", std::move(list)}, {"memory", memory_}};
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    Query query(*this, *before);
    custom_.check_columns(*before);
    arrow::FieldVector fields(query.schema->fields().begin(),
                              query.schema->fields().begin() + std::ssize(keys_));
    for (const auto& aggregate : aggregates_) {
      auto field = query.schema->GetFieldByName(aggregate.name());
      fields.push_back(field ? field : CustomGroups::field(aggregate));
    }
    return arrow::schema(fields);
  }
  ColumnNames columns_needed(ColumnNames) const override {
    ColumnNames needed = keys_;
    for (const auto& aggregate : aggregates_) {
      for (const auto& column : aggregate.columns()) {
        if (!contains(*needed, column)) needed->push_back(column);
      }
    }
    return needed;
  }
  std::optional<int64_t> rows_of_all(std::optional<int64_t>) const override {
    return keys_.empty() ? std::optional<int64_t>(1) : std::nullopt;
  }
  bool add_bounds(FileBounds&) const override { return false; }
  int64_t memory_bytes() const override { return wide_memory(memory_); }
  bool runs_in_parts() const override { return !keys_.empty(); }

  void run(const AllRows& rows, RowSink& sink) const override {
    auto first = rows.next();
    SchemaPtr schema = first ? first->schema() : rows.schema;
    if (!schema) return;  // no rows, and unknown columns: no groups
    AllRows all = rows;
    all.next = [&]() -> BatchPtr { return first ? std::move(first) : rows.next(); };
    if (custom_.empty()) {
      run_plain(all, *schema, sink);
    } else if (plain_.empty()) {
      custom_.run(all, *schema, memory_, [&](const BatchPtr& batch) { sink.add(batch); });
    } else {
      run_both(all, schema, sink);
    }
  }

 private:
  struct Query;

  static std::vector<Aggregate> select(const std::vector<Aggregate>& from, bool custom) {
    std::vector<Aggregate> some;
    for (const auto& each : from) {
      if ((each.kind() == Aggregate::Kind::kCustom) == custom) some.push_back(each);
    }
    return some;
  }

  void run_plain(const AllRows& rows, const arrow::Schema& schema, RowSink& sink) const {
    Query query(*this, schema);
    if (rows.in_parts) return run_dealt_out(rows, query, sink);
    if (GroupSums::suits(keys_, plain_, schema)) return run_sums(rows, query, sink);
    run_query(query, encoded(rows, query), rows, sink);
  }

  static NextBatch encoded(const AllRows& rows, const Query& query) {
    return [&]() -> BatchPtr {
      auto batch = rows.next();
      return batch ? query.encode(*batch) : nullptr;
    };
  }

  // False if stopped.
  bool run_query(const Query& query, NextBatch lanes, const AllRows& rows, RowSink& sink) const {
    int threads = query.depends_on_order ? 1 : rows.threads;
    WideQuery engine({memory_bytes(), threads, rows.stopping, rows.work});
    engine.add_input("input", query.lanes, std::move(lanes));
    return engine.run(query.sql, query.result_lanes,
                      [&](const auto& batch) { sink.add(query.decode(*batch)); });
  }

  // Makes the groups of one part of the keys after the other, and sorts all groups at the end.
  void run_dealt_out(const AllRows& rows, const Query& query, RowSink& sink) const {
    auto groups = run_dealt({{encoded(rows, query), 0}},
                            {keys_.size(), memory_bytes(), rows.stopping, to_string()},
                            [&](const std::vector<NextBatch>& parts, RowSink& results) {
                              return run_query(query, parts[0], rows, results);
                            });
    if (!groups) return;
    AllRows all = one_after_another(std::move(*groups), rows);
    const std::vector<bool> upwards(keys_.size(), false);
    sort_rows(all, order_keys(*query.schema, keys_, upwards, Nulls::kLast, to_string()),
              keys_of_columns(keys_, upwards, Nulls::kLast), memory_bytes(), to_string(), sink);
  }

  void run_sums(const AllRows& rows, const Query& query, RowSink& sink) const {
    GroupSums sums(keys_, plain_, query.aggregates);
    BatchPtr rest;  // the rows for which there were too many groups
    while (auto batch = rows.next()) {
      int64_t taken = sums.add(*batch);
      if (taken == batch->num_rows()) continue;
      rest = batch->Slice(taken);
      break;
    }
    if (!rest) {
      if (auto results = sums.results()) sink.add(query.decode(*results));
      return;
    }
    BatchPtr groups = sums.groups();
    WideQuery engine({memory_bytes(), 1, rows.stopping, rows.work});
    engine.add_input("input", query.lanes_with(sums.lanes()), [&]() -> BatchPtr {
      if (groups) return std::exchange(groups, nullptr);
      auto batch = rest ? std::exchange(rest, nullptr) : rows.next();
      return batch ? sums.single_rows(*batch) : nullptr;
    });
    engine.run(query.sql_of(sums.sql(keys_.size())), query.result_lanes,
               [&](const auto& batch) { sink.add(query.decode(*batch)); });
  }

  // Runs each kind of aggregates by itself, over the same rows in a file. Both give the groups in
  // the same order.
  void run_both(const AllRows& rows, const SchemaPtr& schema, RowSink& sink) const {
    RowStore input(schema, "the rows that go into " + to_string());
    while (auto batch = rows.next()) input.add(batch);
    if (rows.stopping && rows.stopping()) return;
    auto stored = input.finish();

    RowStore plain_results(nullptr, "results of " + to_string());
    StoredReader plain_input(stored, Query(*this, *schema).columns());
    AllRows all = rows;
    all.next = [&] { return plain_input.next(); };
    run_plain(all, *schema, plain_results);
    if (rows.stopping && rows.stopping()) return;

    auto results = plain_results.finish();
    StoredReader other(
        results, results->schema() ? results->schema()->field_names() : std::vector<std::string>{});
    StoredReader custom_input(stored, custom_.columns());
    all.next = [&] { return custom_input.next(); };
    auto given = schema_after(schema);
    custom_.run(all, *schema, memory_, [&](const BatchPtr& batch) {
      auto beside = other.next(batch->num_rows());
      MANTA_CHECK(beside->num_rows() == batch->num_rows(), "groups without a result");
      arrow::ArrayVector columns;
      for (const auto& name : given->field_names()) {
        auto column = beside->GetColumnByName(name);
        columns.push_back(column ? column : batch->GetColumnByName(name));
      }
      sink.add(arrow::RecordBatch::Make(given, batch->num_rows(), std::move(columns)));
    });
  }

  /// The whole query, for columns of known types.
  struct Query {
    Query(const GroupBy& operation, const arrow::Schema& before) : keys(operation.keys_) {
      std::string doing = operation.to_string();
      require_columns(keys, before.field_names(), operation);
      arrow::FieldVector fields;
      std::vector<std::string> asked;
      for (const auto& name : keys) {
        auto field = before.GetFieldByName(name);
        require_key(*field, doing);
        lanes.push_back(Key::lane_type(*field->type()));
        result_lanes.push_back(lanes.back());
        fields.push_back(arrow::field(name, field->type()));
      }
      for (const auto& each : operation.plain_) {
        const auto& aggregate = aggregates.emplace_back(each, before, doing);
        for (const auto& name : each.columns()) inputs.push_back(name);
        std::string column = str("c", lanes.size());
        if (auto lane = aggregate.lane()) lanes.push_back(lane);
        asked.push_back(aggregate.sql(column));
        result_lanes.push_back(aggregate.result_lane());
        fields.push_back(aggregate.field());
        depends_on_order = depends_on_order || aggregate.depends_on_order();
      }
      if (lanes.empty()) lanes.push_back(arrow::uint8());  // rows are counted
      schema = arrow::schema(fields);
      sql = sql_of(asked);
    }

    // `asked`: the expressions for each group, besides the keys.
    std::string sql_of(const std::vector<std::string>& asked) const {
      std::vector<std::string> numbers, order;
      for (size_t i = 0; i < keys.size(); ++i) {
        numbers.push_back(str("c", i));
        order.push_back(str("c", i, " NULLS LAST"));
      }
      std::vector<std::string> all = numbers;
      all.insert(all.end(), asked.begin(), asked.end());
      std::string text = str("SELECT ", join(all), " FROM input()");
      if (keys.empty()) return text;
      return str(text, " GROUP BY ", join(numbers), " ORDER BY ", join(order));
    }

    // The lanes of the keys, and these.
    std::vector<std::shared_ptr<arrow::DataType>> lanes_with(
        const std::vector<std::shared_ptr<arrow::DataType>>& others) const {
      std::vector<std::shared_ptr<arrow::DataType>> all(lanes.begin(),
                                                        lanes.begin() + std::ssize(keys));
      all.insert(all.end(), others.begin(), others.end());
      return all;
    }

    std::vector<std::string> columns() const {
      std::vector<std::string> all = keys;
      for (const auto& name : inputs) {
        if (!contains(all, name)) all.push_back(name);
      }
      return all;
    }

    std::shared_ptr<arrow::RecordBatch> encode(const arrow::RecordBatch& batch) const {
      arrow::ArrayVector all;
      for (const auto& key : keys) all.push_back(Key::encode(batch.GetColumnByName(key)));
      for (const auto& aggregate : aggregates) {
        if (aggregate.lane()) all.push_back(aggregate.encode(batch));
      }
      if (all.empty()) {
        all.push_back(check(arrow::MakeArrayOfNull(arrow::uint8(), batch.num_rows()), "counting"));
      }
      return lanes_batch(std::move(all), batch.num_rows());
    }

    std::shared_ptr<arrow::RecordBatch> decode(const arrow::RecordBatch& batch) const {
      arrow::ArrayVector columns;
      for (size_t i = 0; i < result_lanes.size(); ++i) {
        auto lane = batch.column(static_cast<int>(i));
        columns.push_back(i < keys.size()
                              ? Key::decode(lane, schema->field(static_cast<int>(i))->type())
                              : aggregates[i - keys.size()].decode(lane));
      }
      return arrow::RecordBatch::Make(schema, batch.num_rows(), std::move(columns));
    }

    std::vector<std::string> keys, inputs;
    std::vector<PreparedAggregate> aggregates;
    std::vector<std::shared_ptr<arrow::DataType>> lanes, result_lanes;
    SchemaPtr schema;
    std::string sql;
    bool depends_on_order = false;
  };

  const std::vector<std::string> keys_;
  const std::vector<Aggregate> aggregates_;
  const int64_t memory_;
  const CustomGroups custom_;
  const std::vector<Aggregate> plain_;
};

}  // namespace

OperationPtr read_group_by(const JsonFields& fields, const PlanFunctions& functions) {
  std::vector<Aggregate> aggregates;
  for (size_t i = 0; i < fields.array("aggregates").size(); ++i) {
    aggregates.push_back(aggregate_from_json(fields.element("aggregates", i), functions));
  }
  auto keys = fields.texts("keys", kLongestName);
  if (keys.empty() && aggregates.empty()) fields.fail("keys", "columns, if nothing is aggregated");
  return std::make_shared<GroupBy>(
      std::move(keys), std::move(aggregates),
      checked_memory(fields.integer("memory", 0, kMaxRows), "groupby"));
}

}  // namespace data

GroupedDataset::GroupedDataset(Dataset dataset, std::vector<std::string> keys,
                               const GroupByOptions& options)
    : dataset_(std::move(dataset)),
      keys_(std::move(keys)),
      memory_bytes_(data::checked_memory(options.memory_bytes, "groupby")) {
  if (keys_.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                "groupby needs at least one column; for one result of all rows use aggregate");
  }
  // Finds a wrong key here, not only when the groups are used.
  then(dataset_, std::make_shared<data::GroupBy>(keys_, std::vector<Aggregate>{}, memory_bytes_));
}

Dataset GroupedDataset::aggregate(const std::vector<Aggregate>& aggregates) const {
  if (aggregates.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "aggregate needs at least one aggregate");
  }
  return then(dataset_, std::make_shared<data::GroupBy>(keys_, aggregates, memory_bytes_));
}

GroupedDataset Dataset::groupby(const std::vector<std::string>& keys,
                                const GroupByOptions& options) const {
  return GroupedDataset(*this, keys, options);
}

std::shared_ptr<arrow::RecordBatch> Dataset::aggregate(
    const std::vector<Aggregate>& aggregates) const {
  if (aggregates.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "aggregate needs at least one aggregate");
  }
  auto table =
      then(*this, std::make_shared<data::GroupBy>(std::vector<std::string>{}, aggregates, 0))
          .to_table();
  if (table->num_rows() == 1) return check(table->CombineChunksToBatch(), "aggregate");
  throw Error(ErrorKind::kInvalidArgument,
              "aggregate: the columns of this data set are known from its first row, and it has no "
              "rows");
}

namespace {

std::shared_ptr<arrow::Scalar> value_of(const arrow::RecordBatch& row) {
  return check(row.column(0)->GetScalar(0), "aggregate");
}
std::optional<double> number_in(const arrow::RecordBatch& row) {
  auto& column = static_cast<const arrow::DoubleArray&>(*row.column(0));
  return column.IsNull(0) ? std::nullopt : std::optional(column.Value(0));
}

}  // namespace

std::shared_ptr<arrow::Scalar> Dataset::sum(const std::string& column) const {
  return value_of(*aggregate({agg::sum(column)}));
}
std::shared_ptr<arrow::Scalar> Dataset::min(const std::string& column) const {
  return value_of(*aggregate({agg::min(column)}));
}
std::shared_ptr<arrow::Scalar> Dataset::max(const std::string& column) const {
  return value_of(*aggregate({agg::max(column)}));
}
std::optional<double> Dataset::mean(const std::string& column) const {
  return number_in(*aggregate({agg::mean(column)}));
}
std::optional<double> Dataset::std(const std::string& column, int ddof) const {
  return number_in(*aggregate({agg::std(column, ddof)}));
}

std::shared_ptr<arrow::ChunkedArray> Dataset::unique(const std::string& column) const {
  return then(*this, std::make_shared<data::GroupBy>(std::vector<std::string>{column},
                                                     std::vector<Aggregate>{}, 0))
      .to_table()
      ->column(0);
}

}  // namespace manta
