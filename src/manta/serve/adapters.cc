#include "manta/serve/adapters.h"

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>

#include "manta/base/error_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/serve/json_table_internal.h"

namespace manta::serve {

namespace {

void read_columns(std::string_view body, TableBuilder& table) {
  ColumnsReader reader(table, /*takes_plain_values=*/false);
  read_table(body, reader);
}

void read_records(std::string_view body, TableBuilder& table) {
  RecordsReader reader(table);
  read_table(body, reader);
}

void read_split(std::string_view body, TableBuilder& table) {
  SplitReader reader(table);
  read_table(body, reader);
}

void read_any(std::string_view body, TableBuilder& table) {
  size_t first = body.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && body[first] == '[') return read_records(body, table);
  ColumnsReader reader(table, /*takes_plain_values=*/true);
  try {
    return read_table(body, reader);
  } catch (const Error&) {
    if (!reader.saw_rows()) throw;
  }
  read_split(body, table);
}

Batch read(ReadJson read_json, const Request& request) {
  TableBuilder table;
  read_json(request.body, table);
  return table.finish();
}

}  // namespace

ReadJson json_reader_of(HttpAdapter adapter) {
  if (adapter == json_columns) return read_columns;
  if (adapter == json_records) return read_records;
  if (adapter == json_split) return read_split;
  return adapter == json_any ? read_any : nullptr;
}

Batch json_columns(const Request& request) { return read(read_columns, request); }
Batch json_records(const Request& request) { return read(read_records, request); }
Batch json_split(const Request& request) { return read(read_split, request); }
Batch json_any(const Request& request) { return read(read_any, request); }

Batch arrow_ipc(const Request& request) {
  // Buffers would refer to the body, which does not outlive this call: so it is copied once,
  // aligned for Arrow.
  const std::string doing = "reading the request's body as a stream of Arrow's IPC format";
  auto size = static_cast<int64_t>(request.body.size());
  std::shared_ptr<arrow::Buffer> body = check(arrow::AllocateBuffer(size), doing);
  std::copy(request.body.begin(), request.body.end(), body->mutable_data());
  try {
    auto input = std::make_shared<arrow::io::BufferReader>(body);
    auto reader = check(arrow::ipc::RecordBatchStreamReader::Open(input), doing);
    auto table = check(reader->ToTable(), doing);
    check(table->ValidateFull(), doing);
    return check(table->CombineChunksToBatch(), doing);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kResources) throw;
    throw Error(ErrorKind::kInvalidArgument, error.what());
  }
}

}  // namespace manta::serve
