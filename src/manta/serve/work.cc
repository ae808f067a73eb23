#include <arrow/api.h>
#include <arrow/array/concatenate.h>

#include <deque>

#include "manta/io/arrow_status_internal.h"
#include "manta/serve/guard_internal.h"
#include "manta/serve/http_server_internal.h"
#include "manta/serve/json_table_internal.h"
#include "manta/serve/predictions_json_internal.h"
#include "manta/serve/work_internal.h"

namespace manta::serve {
namespace {

using Predict = std::function<Batch(const Batch&)>;

// Tables are used again with their memory: a replica reads the same columns again and again.
class TablePool {
 public:
  struct GiveBack {
    void operator()(TableBuilder* table) const { of_thread().keep(table); }
  };
  using Table = std::unique_ptr<TableBuilder, GiveBack>;

  static TablePool& of_thread() {
    thread_local TablePool pool;
    return pool;
  }
  Table take() {
    if (kept_.empty()) return Table(new TableBuilder);
    Table table(kept_.back().release());
    kept_.pop_back();
    return table;
  }

 private:
  static constexpr size_t kTables = 4;    // at most this many are kept
  static constexpr int64_t kRows = 4096;  // tables with more rows are not kept

  void keep(TableBuilder* table) {
    std::unique_ptr<TableBuilder> owned(table);
    if (kept_.size() < kTables && owned->rows() <= kRows) kept_.push_back(std::move(owned));
  }

  std::vector<std::unique_ptr<TableBuilder>> kept_;
};

void set_error(WorkAnswer& answer, int status, std::string_view why) {
  answer.status = status;
  answer.body = error_body(why);
}

// Runs the function, and makes an answer from an exception. `blames_request` says which errors are
// the client's.
template <class F>
bool try_for(WorkAnswer& answer, const char* what, bool (*blames_request)(ErrorKind), F run) {
  try {
    run();
    return true;
  } catch (const Error& error) {
    set_error(answer, blames_request(error.kind()) ? 400 : 500, error.what());
  } catch (const std::exception& error) {
    set_error(answer, 500,
              str(what, " threw ", demangle(typeid(error).name()), ": ", error.what()));
  } catch (...) {
    set_error(answer, 500, str(what, " threw something that is no std::exception"));
  }
  return false;
}

bool adapter_blames(ErrorKind kind) { return kind == ErrorKind::kInvalidArgument; }
bool predictor_blames(ErrorKind kind) {
  return kind == ErrorKind::kInvalidArgument || kind == ErrorKind::kNotFound;
}

Request request_of(const WorkItem& item) {
  RequestHead head;
  if (auto refusal = read_head(item.head, &head)) throw Error(ErrorKind::kCorrupt, refusal->why);
  Request request;
  request.method = head.method;
  request.path = head.path;
  request.query = head.query;
  request.fields = head.fields;
  request.body = item.body;
  request.deadline = Deadline::after(std::chrono::microseconds(item.microseconds_left));
  return request;
}

// Rows of some requests with the same columns, one after the other.
struct Group {
  struct Member {
    size_t request;
    int64_t begin, rows;
  };
  std::vector<Member> members;
  int64_t rows = 0;
  TablePool::Table table;    // of bodies in JSON
  std::vector<Batch> parts;  // of others: one for each member

  Batch batch() {
    if (parts.empty()) return table->finish();
    if (parts.size() == 1) return parts[0];
    const auto& schema = parts[0]->schema();
    std::vector<std::shared_ptr<arrow::Array>> columns;
    arrow::ArrayVector arrays(parts.size());
    for (int i = 0; i < schema->num_fields(); ++i) {
      for (size_t k = 0; k < parts.size(); ++k) arrays[k] = parts[k]->column(i);
      columns.push_back(check(arrow::Concatenate(arrays), "putting requests together"));
    }
    return arrow::RecordBatch::Make(schema, rows, std::move(columns));
  }
};

// Puts the rows of requests into groups.
class Groups {
 public:
  explicit Groups(int max_rows) : max_rows_(max_rows) {}

  void add(size_t request, TablePool::Table table) {
    int64_t rows = table->rows();
    Group& group = place_for(rows, [&](const Group& each) { return each.table->is_like(*table); });
    if (group.members.empty()) {
      group.table = std::move(table);
    } else {
      group.table->append(*table);
    }
    add_member(group, request, rows);
  }
  void add(size_t request, Batch batch) {
    Group& group = place_for(batch->num_rows(), [&](const Group& each) {
      const auto& schema = each.parts[0]->schema();
      return schema == batch->schema() || schema->Equals(*batch->schema(), /*check_metadata=*/true);
    });
    int64_t rows = batch->num_rows();
    group.parts.push_back(std::move(batch));
    add_member(group, request, rows);
  }
  std::deque<Group>& all() { return all_; }

 private:
  // The last group with the same columns if it has room, or a new one.
  template <class IsLike>
  Group& place_for(int64_t rows, const IsLike& is_like) {
    for (Group*& open : open_) {
      if (!is_like(*open)) continue;
      if (open->rows + rows > max_rows_) open = &all_.emplace_back();
      return *open;
    }
    return *open_.emplace_back(&all_.emplace_back());
  }
  static void add_member(Group& group, size_t request, int64_t rows) {
    group.members.push_back({request, group.rows, rows});
    group.rows += rows;
  }

  const int max_rows_;
  std::deque<Group> all_;
  std::vector<Group*> open_;
};

Batch checked(Batch predictions, int64_t rows) {
  if (!predictions || predictions->num_rows() != rows) {
    throw Error(ErrorKind::kUserCode,
                str("the predictor returned ",
                    predictions ? str(predictions->num_rows(), " rows") : "no batch", " for ", rows,
                    " rows; it must return one for each"));
  }
  return predictions;
}

}  // namespace

std::vector<WorkAnswer> answer_requests(const std::vector<WorkItem>& items, HttpAdapter adapter,
                                        const Predict& predict, int max_rows) {
  std::vector<WorkAnswer> answers(items.size());
  Groups groups(max_rows);
  ReadJson read_json = json_reader_of(adapter);
  for (size_t i = 0; i < items.size(); ++i) {
    answers[i].id = items[i].id;
    try_for(answers[i], "http_adapter", adapter_blames, [&] {
      if (read_json) {
        auto table = TablePool::of_thread().take();
        read_json(items[i].body, *table);
        groups.add(i, std::move(table));
      } else {
        Batch rows = adapter(request_of(items[i]));
        if (!rows) throw Error(ErrorKind::kUserCode, "http_adapter returned no batch");
        groups.add(i, std::move(rows));
      }
    });
  }
  for (auto& group : groups.all()) {
    Batch rows;
    WorkAnswer failure;
    bool ok = try_for(failure, "the predictor", predictor_blames, [&] {
      rows = group.batch();
      auto predictions = checked(predict(rows), group.rows);
      for (const auto& member : group.members) {
        append_predictions(answers[member.request].body, *predictions, member.begin, member.rows);
      }
    });
    if (ok) continue;
    bool alone = !rows || group.members.size() == 1;
    for (const auto& member : group.members) {
      WorkAnswer& answer = answers[member.request];
      answer.body.clear();
      if (alone) {
        answer.status = failure.status;
        answer.body = failure.body;
        continue;
      }
      try_for(answer, "the predictor", predictor_blames, [&] {
        auto predictions = checked(predict(rows->Slice(member.begin, member.rows)), member.rows);
        append_predictions(answer.body, *predictions, 0, member.rows);
      });
    }
  }
  return answers;
}

}  // namespace manta::serve
