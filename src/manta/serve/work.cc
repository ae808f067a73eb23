#include <arrow/api.h>
#include <arrow/array/concatenate.h>

#include "manta/io/arrow_status_internal.h"
#include "manta/serve/guard_internal.h"
#include "manta/serve/http_server_internal.h"
#include "manta/serve/predictions_json_internal.h"
#include "manta/serve/work_internal.h"

namespace manta::serve {
namespace {

using Predict = std::function<Batch(const Batch&)>;

void set_error(WorkAnswer& answer, int status, std::string_view why) {
  answer.status = status;
  answer.body = error_body(why);
}

// Runs it, and makes an answer of what it throws. `blames_request` tells which errors are the
// client's.
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

// Rows of some requests, one after the other.
struct Group {
  std::vector<size_t> members;
  int64_t rows = 0;
};

Batch combine(const Group& group, const std::vector<Batch>& rows) {
  if (group.members.size() == 1) return rows[group.members[0]];
  const auto& schema = rows[group.members[0]]->schema();
  std::vector<std::shared_ptr<arrow::Array>> columns;
  arrow::ArrayVector parts(group.members.size());
  for (int i = 0; i < schema->num_fields(); ++i) {
    for (size_t k = 0; k < group.members.size(); ++k) parts[k] = rows[group.members[k]]->column(i);
    columns.push_back(check(arrow::Concatenate(parts), "putting requests together"));
  }
  return arrow::RecordBatch::Make(schema, group.rows, std::move(columns));
}

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
  std::vector<Batch> rows(items.size());
  std::vector<Group> groups;
  std::vector<size_t> open;  // the last group of each schema
  for (size_t i = 0; i < items.size(); ++i) {
    answers[i].id = items[i].id;
    bool ok = try_for(answers[i], "http_adapter", adapter_blames, [&] {
      rows[i] = adapter(request_of(items[i]));
      if (!rows[i]) throw Error(ErrorKind::kUserCode, "http_adapter returned no batch");
    });
    if (!ok) continue;
    int64_t size = rows[i]->num_rows();
    auto same = std::find_if(open.begin(), open.end(), [&](size_t group) {
      const auto& schema = rows[groups[group].members[0]]->schema();
      return schema == rows[i]->schema() ||
             schema->Equals(*rows[i]->schema(), /*check_metadata=*/true);
    });
    if (same == open.end()) {
      open.push_back(groups.size());
      groups.push_back({{i}, size});
    } else if (groups[*same].rows + size > max_rows) {
      *same = groups.size();
      groups.push_back({{i}, size});
    } else {
      groups[*same].members.push_back(i);
      groups[*same].rows += size;
    }
  }

  auto predict_alone = [&](size_t i) {
    try_for(answers[i], "the predictor", predictor_blames, [&] {
      auto predictions = checked(predict(rows[i]), rows[i]->num_rows());
      append_predictions(answers[i].body, *predictions, 0, predictions->num_rows());
    });
  };
  for (const auto& group : groups) {
    if (group.members.size() > 1) {
      WorkAnswer failure;
      Batch predictions;
      bool ok = try_for(failure, "the predictor", predictor_blames, [&] {
        predictions = checked(predict(combine(group, rows)), group.rows);
        int64_t begin = 0;
        for (size_t i : group.members) {
          append_predictions(answers[i].body, *predictions, begin, rows[i]->num_rows());
          begin += rows[i]->num_rows();
        }
      });
      if (ok) continue;
      for (size_t i : group.members) answers[i].body.clear();
    }
    for (size_t i : group.members) predict_alone(i);
  }
  return answers;
}

}  // namespace manta::serve
