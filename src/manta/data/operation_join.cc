#include <arrow/api.h>
#include <arrow/compute/api.h>

#include <algorithm>
#include <array>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/dealt_rows_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/placed_rows_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/wide_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

struct JoinKind {
  JoinType type;
  const char* name;
  const char* sql;
};

constexpr std::array<JoinKind, 8> kJoinKinds = {{
    {JoinType::kInner, "inner", "JOIN"},
    {JoinType::kLeft, "left", "LEFT JOIN"},
    {JoinType::kRight, "right", "RIGHT JOIN"},
    {JoinType::kOuter, "outer", "FULL JOIN"},
    {JoinType::kLeftSemi, "left semi", "SEMI JOIN"},
    {JoinType::kLeftAnti, "left anti", "ANTI JOIN"},
    {JoinType::kRightSemi, "right semi", "SEMI JOIN"},
    {JoinType::kRightAnti, "right anti", "ANTI JOIN"},
}};

const JoinKind& kind_of(JoinType type) { return kJoinKinds[static_cast<size_t>(type)]; }

class Join final : public MaterialisingOperation {
 public:
  Join(std::shared_ptr<const Plan> right, std::vector<std::string> on, JoinOptions options)
      : right_(std::move(right)), on_(std::move(on)), options_(std::move(options)) {
    if (options_.right_on.empty()) options_.right_on = on_;
    if (on_.empty() || options_.right_on.size() != on_.size()) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("join needs the same number of columns of both sides, at least one, not ",
                      on_.size(), " and ", options_.right_on.size()));
    }
    require_distinct(on_, "the keys of a join");
    require_distinct(options_.right_on, "the keys of a join's right side");
  }

  std::string to_string() const override {
    return str("join(", kind_of(options_.type).name, " on ", join(on_),
               on_ == options_.right_on ? "" : " = " + join(options_.right_on), ")");
  }
  Json to_json(PlanFunctions& functions) const override {
    return {{"op", "join"},
            {"type", kind_of(options_.type).name},
            {"on", on_},
            {"right_on", options_.right_on},
            {"left_suffix", options_.left_suffix},
            {"right_suffix", options_.right_suffix},
            {"memory", options_.memory_bytes},
            {"right", inner_to_json(*right_, functions)}};
  }
  std::vector<std::shared_ptr<const Plan>> inner_plans() const override { return {right_}; }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    auto right = schema_of(*right_);
    if (!right) {
      require_columns(on_, before->field_names(), *this);
      return nullptr;
    }
    return result_of(*before, *right, std::nullopt).schema;
  }
  ColumnNames columns_needed(ColumnNames live) const override {
    auto right = schema_of(*right_);
    if (!live || !right) return std::nullopt;
    ColumnNames needed = on_;
    auto add = [&](const std::string& name) {
      if (!contains(*needed, name)) needed->push_back(name);
    };
    for (const auto& name : *live) {
      add(name);
      if (!options_.left_suffix.empty() && name.ends_with(options_.left_suffix)) {
        add(name.substr(0, name.size() - options_.left_suffix.size()));
      }
    }
    // Whether a name gets a suffix must not depend on which columns are used.
    for (const auto& name : right->field_names()) add(name);
    return needed;
  }
  std::optional<int64_t> rows_of_all(std::optional<int64_t>) const override { return std::nullopt; }
  bool add_bounds(FileBounds&) const override { return false; }
  int64_t memory_bytes() const override { return wide_memory(options_.memory_bytes); }
  bool runs_in_parts() const override { return true; }

  void run(const AllRows& rows, RowSink& sink) const override {
    auto first = rows.next();
    OtherRows others(right_, rows, memory_bytes() / 2);  // it reads ahead beside the left
    SchemaPtr left = first ? first->schema() : rows.schema, right = others.schema();
    if (!left || !right) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("in ", to_string(), ": the columns of the ", left ? "right" : "left",
                      " side are known from its first row, and it has no rows"));
    }
    Result result = result_of(*left, *right, rows.live);
    Side l(left, on_, to_string()), r(right, options_.right_on, to_string());
    NextBatch left_lanes = [&]() -> BatchPtr {
      auto batch = first ? std::move(first) : rows.next();
      first = nullptr;
      return batch ? l.encode(*batch) : nullptr;
    };
    NextBatch right_lanes = [&]() -> BatchPtr {
      auto batch = others.next();
      return batch ? r.encode(*batch) : nullptr;
    };
    if (rows.in_parts) return run_dealt_out(rows, result, l, r, left_lanes, right_lanes, sink);
    auto left_rows = std::make_shared<KeptRows>(l.columns.lanes(), left_lanes);
    auto right_rows = std::make_shared<KeptRows>(r.columns.lanes(), right_lanes);
    // Reads the right side first: it is mostly the smaller one.
    int64_t room = KeptRows::room(memory_bytes());
    bool all_kept = right_rows->keep_all(room) && left_rows->keep_all(room);
    if (rows.stopping && rows.stopping()) return;
    if (all_kept) return run_kept(rows, result, l, r, left_rows, right_rows, sink);
    run_whole(rows, result, l, r, *left_rows, *right_rows, sink);
  }

 private:
  /// One side on its way into DuckDB: its columns, the keys, the number of the row.
  struct Side {
    Side(SchemaPtr schema, const std::vector<std::string>& on, const std::string& doing)
        : columns(std::move(schema), doing), keys(on) {}
    std::vector<std::shared_ptr<arrow::DataType>> key_lanes() const {
      std::vector<std::shared_ptr<arrow::DataType>> all;
      for (const auto& key : keys) {
        all.push_back(Key::lane_type(*columns.schema()->GetFieldByName(key)->type()));
      }
      all.push_back(arrow::int64());
      return all;
    }
    std::vector<std::shared_ptr<arrow::DataType>> lanes() const {
      auto all = columns.lanes();
      for (auto& lane : key_lanes()) all.push_back(std::move(lane));
      return all;
    }
    size_t place() const { return columns.size() + keys.size(); }
    std::shared_ptr<arrow::RecordBatch> encode(const arrow::RecordBatch& batch) {
      arrow::ArrayVector all;
      columns.encode(batch, all);
      for (const auto& key : keys) all.push_back(Key::encode(batch.GetColumnByName(key)));
      all.push_back(KeptRows::places(batches++, batch.num_rows()));
      return lanes_batch(std::move(all), batch.num_rows());
    }

    WideColumns columns;
    std::vector<std::string> keys;
    int64_t batches = 0;
  };

  /// A column of the result: which column of the left or the right it is, or of both if it is a
  /// key.
  struct Column {
    int left = -1, right = -1;
    std::shared_ptr<arrow::DataType> type;

    std::string expression() const {
      if (left < 0) return str("r.c", right);
      return right < 0 ? str("l.c", left) : str("coalesce(l.c", left, ", r.c", right, ")");
    }
  };
  struct Result {
    SchemaPtr schema;
    std::vector<Column> columns;
  };

  bool is_of_right() const {
    return options_.type == JoinType::kRightSemi || options_.type == JoinType::kRightAnti;
  }
  bool is_of_one() const { return options_.type >= JoinType::kLeftSemi; }

  // Only keys and places go through DuckDB.
  void run_kept(const AllRows& rows, const Result& result, const Side& l, const Side& r,
                const std::shared_ptr<KeptRows>& left_rows,
                const std::shared_ptr<KeptRows>& right_rows, RowSink& sink) const {
    WideQuery query({memory_bytes(), rows.threads, rows.stopping, rows.work});
    query.add_input(
        "l", l.key_lanes(), [&] { return left_rows->next_keys(); }, left_rows->rows());
    query.add_input(
        "r", r.key_lanes(), [&] { return right_rows->next_keys(); }, right_rows->rows());
    std::vector<std::string> places;
    PlacedRows placed{result.schema, {}, made_of(result, left_rows, right_rows, to_string())};
    if (!is_of_one() || !is_of_right()) {
      places.push_back(str("l.c", on_.size()));
      placed.sides.push_back(left_rows);
    }
    if (!is_of_one() || is_of_right()) {
      places.push_back(str("r.c", on_.size()));
      placed.sides.push_back(right_rows);
    }
    give_rows(placed.places_of(query, ordered_sql(join(places), 0, 0)), placed, rows.threads,
              KeptRows::room(memory_bytes()), sink);
  }

  // All columns of all rows go through DuckDB.
  void run_whole(const AllRows& rows, const Result& result, const Side& l, const Side& r,
                 KeptRows& left_rows, KeptRows& right_rows, RowSink& sink) const {
    WideQuery query({memory_beside_readers(), rows.threads, rows.stopping, rows.work});
    query.add_input("l", l.lanes(), [&] { return left_rows.next(); });
    query.add_input("r", r.lanes(), [&] { return right_rows.next(); });
    WideColumns decoder(result.schema, to_string());
    Selected selected(result);
    if (result.columns.empty()) add_places(selected, l, r);  // only the number of rows matters
    query.run(ordered_sql(join(selected.columns), l.columns.size(), r.columns.size()),
              selected.lanes, [&](const auto& batch) { sink.add(decoder.decode(*batch)); });
  }

  // Makes the pairs of one part of the keys after the other, and sorts all pairs at the end.
  void run_dealt_out(const AllRows& rows, const Result& result, const Side& l, const Side& r,
                     const NextBatch& left_lanes, const NextBatch& right_lanes,
                     RowSink& sink) const {
    Selected selected(result);
    add_places(selected, l, r);
    std::string text = sql(join(selected.columns), l.columns.size(), r.columns.size());
    auto pairs =
        run_dealt({{left_lanes, l.columns.size()}, {right_lanes, r.columns.size()}},
                  {on_.size(), memory_bytes(), rows.stopping, to_string()},
                  [&](const std::vector<NextBatch>& parts, RowSink& results) {
                    WideQuery query({memory_bytes(), rows.threads, rows.stopping, rows.work});
                    query.add_input("l", l.lanes(), parts[0]);
                    query.add_input("r", r.lanes(), parts[1]);
                    return query.run(text, selected.lanes,
                                     [&](const auto& batch) { results.add(with_names(*batch)); });
                  });
    if (!pairs) return;
    WideColumns decoder(result.schema, to_string());
    auto places_of = [&](const arrow::RecordBatch& batch, int64_t) {
      return arrow::ArrayVector(batch.columns().begin() + std::ssize(result.columns),
                                batch.columns().end());
    };
    AllRows all = one_after_another(std::move(*pairs), rows);
    sort_rows(all, std::vector<OrderKey>(order().size(), {.lane = arrow::int64()}), places_of,
              memory_bytes(), to_string(),
              [&](const auto& batch) { sink.add(decoder.decode(*batch)); });
  }

  /// Rows of two sides are on their way to DuckDB; other operations have only one side.
  int64_t memory_beside_readers() const { return memory_bytes() / 8 * 7; }

  enum class From { kLeft, kRight };
  /// The sides whose rows are in the result. Their places order the result, those of the first side
  /// first.
  std::vector<From> order() const {
    if (is_of_one()) return {is_of_right() ? From::kRight : From::kLeft};
    if (options_.type == JoinType::kRight) return {From::kRight, From::kLeft};
    return {From::kLeft, From::kRight};
  }

  /// The columns that a query selects.
  struct Selected {
    explicit Selected(const Result& result) {
      for (const auto& column : result.columns) {
        columns.push_back(column.expression());
        lanes.push_back(Payload::lane_type(*column.type));
      }
    }
    std::vector<std::string> columns;
    std::vector<std::shared_ptr<arrow::DataType>> lanes;
  };
  void add_places(Selected& selected, const Side& l, const Side& r) const {
    for (From from : order()) {
      selected.columns.push_back(from == From::kLeft ? str("l.c", l.place())
                                                     : str("r.c", r.place()));
      selected.lanes.push_back(arrow::int64());
    }
  }

  /// The SQL for inputs whose keys begin at these lanes.
  std::string sql(const std::string& columns, size_t left_keys, size_t right_keys) const {
    std::string conditions;
    for (size_t i = 0; i < on_.size(); ++i) {
      conditions += str(i == 0 ? "" : " AND ", "l.c", left_keys + i, " = r.c", right_keys + i);
    }
    return str("SELECT ", columns, " FROM ", is_of_right() ? "r() AS r " : "l() AS l ",
               kind_of(options_.type).sql, is_of_right() ? " l() AS l" : " r() AS r", " ON ",
               conditions);
  }
  /// The same, with the places after the keys: rows come in the order of one side, then of the
  /// other.
  std::string ordered_sql(const std::string& columns, size_t left_keys, size_t right_keys) const {
    std::vector<std::string> places;
    for (From from : order()) {
      size_t place = (from == From::kLeft ? left_keys : right_keys) + on_.size();
      places.push_back(str(from == From::kLeft ? "l.c" : "r.c", place, " NULLS LAST"));
    }
    return str(sql(columns, left_keys, right_keys), " ORDER BY ", join(places));
  }

  void check_keys(const arrow::Schema& left, const arrow::Schema& right) const {
    require_columns(on_, left.field_names(), *this);
    for (const auto& name : options_.right_on) {
      if (right.GetFieldByName(name)) continue;
      throw Error(ErrorKind::kNotFound, str("in ", to_string(), ": of the right side: ",
                                            no_such_column(name, right.field_names())));
    }
    for (size_t i = 0; i < on_.size(); ++i) {
      auto l = left.GetFieldByName(on_[i]), r = right.GetFieldByName(options_.right_on[i]);
      require_key(*l, to_string());
      require_key(*r, to_string());
      if (plain_type(l->type())->Equals(*plain_type(r->type()))) continue;
      throw Error(ErrorKind::kInvalidArgument,
                  str("in ", to_string(), ": the key '", l->name(), "' is of type ",
                      l->type()->ToString(), " on the left and ", r->type()->ToString(),
                      " on the right ('", r->name(), "'); cast one of them"));
    }
  }

  // The columns of the result that `live` has, and where they come from.
  Result result_of(const arrow::Schema& left, const arrow::Schema& right,
                   const ColumnNames& live) const {
    check_keys(left, right);
    Result result;
    arrow::FieldVector fields;
    auto add = [&](const std::string& name, Column column) {
      if (live && !contains(*live, name)) return;
      for (const auto& field : fields) {
        if (field->name() == name) fail_collision(name);
      }
      fields.push_back(arrow::field(name, column.type));
      result.columns.push_back(std::move(column));
    };
    if (is_of_one()) {
      const auto& side = is_of_right() ? right : left;
      for (int i = 0; i < side.num_fields(); ++i) {
        const auto& field = side.field(i);
        add(field->name(),
            is_of_right() ? Column{-1, i, field->type()} : Column{i, -1, field->type()});
      }
      result.schema = arrow::schema(fields);
      return result;
    }
    auto key_at = [](const std::vector<std::string>& keys, const std::string& name) {
      return static_cast<size_t>(std::find(keys.begin(), keys.end(), name) - keys.begin());
    };
    for (int i = 0; i < left.num_fields(); ++i) {
      const auto& field = left.field(i);
      size_t key = key_at(on_, field->name());
      if (key < on_.size()) {
        int other = right.GetFieldIndex(options_.right_on[key]);
        bool same_lane = Payload::lane_type(*field->type())
                             ->Equals(*Payload::lane_type(*right.field(other)->type()));
        MANTA_CHECK(same_lane, "keys of different lanes");
        add(field->name(), {i, other, field->type()});
      } else {
        bool both =
            right.GetFieldIndex(field->name()) >= 0 && !contains(options_.right_on, field->name());
        add(field->name() + (both ? options_.left_suffix : ""), {i, -1, field->type()});
      }
    }
    for (int i = 0; i < right.num_fields(); ++i) {
      const auto& field = right.field(i);
      if (contains(options_.right_on, field->name())) continue;
      bool both = left.GetFieldIndex(field->name()) >= 0;
      add(field->name() + (both ? options_.right_suffix : ""), {-1, i, field->type()});
    }
    result.schema = arrow::schema(fields);
    return result;
  }

  static DeferredRows::Make made_of(Result result, std::shared_ptr<const KeptRows> left,
                                    std::shared_ptr<const KeptRows> right, std::string doing) {
    return [=](const arrow::RecordBatch& places, const std::vector<std::string>& names) {
      Result wanted;
      arrow::FieldVector fields;
      for (const auto& name : names) {
        int column = result.schema->GetFieldIndex(name);
        fields.push_back(result.schema->field(column));
        wanted.columns.push_back(result.columns[static_cast<size_t>(column)]);
      }
      wanted.schema = arrow::schema(fields);
      return WideColumns(wanted.schema, doing).decode(*gathered(wanted, *left, *right, places));
    };
  }

  /// The lanes of the result's columns for pairs of places.
  static std::shared_ptr<arrow::RecordBatch> gathered(const Result& result, const KeptRows& left,
                                                      const KeptRows& right,
                                                      const arrow::RecordBatch& places) {
    const auto& left_places = *places.column(0);
    const auto& right_places = *places.column(places.num_columns() - 1);
    // The key comes from the left, unless there is no left row.
    bool keys_of_both = left_places.null_count() > 0;
    std::vector<int> of_left, of_right;
    for (const auto& column : result.columns) {
      if (column.left >= 0) of_left.push_back(column.left);
      if (column.right >= 0 && (column.left < 0 || keys_of_both)) of_right.push_back(column.right);
    }
    auto left_lanes = left.gather(of_left, left_places);
    auto right_lanes = right.gather(of_right, right_places);
    arrow::ArrayVector lanes;
    size_t next_left = 0, next_right = 0;
    for (const auto& column : result.columns) {
      if (column.left < 0) {
        lanes.push_back(right_lanes[next_right++]);
      } else if (column.right < 0 || !keys_of_both) {
        lanes.push_back(left_lanes[next_left++]);
      } else {
        start_compute();
        auto both = arrow::compute::CallFunction(
            "coalesce", {left_lanes[next_left++], right_lanes[next_right++]});
        lanes.push_back(check(std::move(both), "the keys of a join").make_array());
      }
    }
    return lanes_batch(std::move(lanes), places.num_rows());
  }

  [[noreturn]] void fail_collision(const std::string& name) const {
    throw Error(ErrorKind::kInvalidArgument,
                str("in ", to_string(), ": both sides have a column '", name,
                    "' that is no key; give left_suffix or right_suffix, or drop one of them"));
  }

  const std::shared_ptr<const Plan> right_;
  const std::vector<std::string> on_;
  JoinOptions options_;
};

}  // namespace

OperationPtr read_join(const JsonFields& fields, const PlanFunctions& functions) {
  JoinOptions options;
  std::string type = fields.text("type");
  auto found = std::find_if(kJoinKinds.begin(), kJoinKinds.end(),
                            [&](const auto& kind) { return type == kind.name; });
  if (found == kJoinKinds.end()) fields.fail("type", "a type of join");
  options.type = found->type;
  options.right_on = fields.texts("right_on", kLongestName);
  options.left_suffix = fields.text("left_suffix", kLongestName);
  options.right_suffix = fields.text("right_suffix", kLongestName);
  options.memory_bytes = checked_memory(fields.integer("memory", 0, kMaxRows), "join");
  return std::make_shared<Join>(inner_from_json(fields, "right", functions),
                                fields.texts("on", kLongestName), std::move(options));
}

}  // namespace data

Dataset Dataset::join(const Dataset& right, const std::vector<std::string>& on,
                      const JoinOptions& options) const {
  data::checked_memory(options.memory_bytes, "join");
  return then(*this, std::make_shared<data::Join>(right.plan(), on, options));
}

}  // namespace manta
