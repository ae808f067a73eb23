// The messages between data readers of different nodes, and the rows that they send.

#include <arrow/api.h>
#include <manta/data/exchange_messages_internal.h>
#include <manta/data/exchange_rows_internal.h>
#include <manta/train/messages_internal.h>

#include "messages.h"
#include "target.h"

namespace manta::fuzz::reader_messages {
namespace {

std::shared_ptr<arrow::RecordBatch> some_rows() {
  arrow::Int64Builder ids;
  arrow::StringBuilder words;
  for (int i = 0; i < 5; ++i) {
    if (!ids.Append(i).ok() || !words.Append(std::string(static_cast<size_t>(i), 'w')).ok())
      std::abort();
  }
  auto schema =
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("word", arrow::utf8())});
  return arrow::RecordBatch::Make(schema, 5,
                                  {ids.Finish().ValueOrDie(), words.Finish().ValueOrDie()});
}

}  // namespace

void run(std::string_view input) {
  if (input.empty()) return;
  char kind = input[0];
  input.remove_prefix(1);
  if (kind == 0) decode_input<data::BetweenReaders>(input);
  if (kind == 1) decode_input<train::AtMesh>(input);
  if (kind == 2) data::schema_from_bytes(std::string(input));
  if (kind == 3) data::rows_from_bytes(some_rows()->schema(), std::string(input));
}

std::vector<std::string> seeds() {
  using namespace data;
  std::string said(1, '\0'), mesh(1, '\1'), schema(1, '\2'), rows(1, '\3');
  OpenPass open{1, "train", {1, 100, 2, 80}, 64, 32, false};
  auto batch = some_rows();
  return {said + input_of<BetweenReaders>(PassPlan{open, true, 12}),
          said + input_of<BetweenReaders>(JoinPass{open}),
          said + input_of<BetweenReaders>(WindowRows{1, 3, 1000, 8000}),
          said + input_of<BetweenReaders>(WantKnown{1, 196}),
          said + input_of<BetweenReaders>(AskRows{1, 7, 3, 80, 100, 164, -1}),
          said + input_of<BetweenReaders>(RowsSchema{1, schema_to_bytes(*batch->schema())}),
          said + input_of<BetweenReaders>(RowsPart{1, 7, true, rows_to_bytes({batch})}),
          said + input_of<BetweenReaders>(PassedWindow{1, 3}),
          said + input_of<BetweenReaders>(LeavePass{1}),
          said + input_of<BetweenReaders>(PassFailed{1, ErrorKind::kIo, "why"}),
          said + input_of<BetweenReaders>(Probe{1, "xxxx"}),
          said + input_of<BetweenReaders>(ProbeSeen{1}),
          mesh + input_of<train::AtMesh>(train::ReaderHello{"token", 1, 2}),
          schema + schema_to_bytes(*batch->schema()),
          rows + rows_to_bytes({batch})};
}

}  // namespace manta::fuzz::reader_messages
