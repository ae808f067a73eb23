#include "manta/serve/adapters.h"

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>

#include "manta/base/error_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/serve/json_table_internal.h"

namespace manta::serve {

Batch json_columns(const Request& request) {
  ColumnsReader reader(/*takes_plain_values=*/false);
  return read_table(request.body, reader);
}

Batch json_records(const Request& request) {
  RecordsReader reader;
  return read_table(request.body, reader);
}

Batch json_split(const Request& request) {
  SplitReader reader;
  return read_table(request.body, reader);
}

Batch json_any(const Request& request) {
  size_t first = request.body.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && request.body[first] == '[') return json_records(request);
  ColumnsReader reader(/*takes_plain_values=*/true);
  try {
    return read_table(request.body, reader);
  } catch (const Error&) {
    if (!reader.saw_rows()) throw;
  }
  return json_split(request);
}

Batch arrow_ipc(const Request& request) {
  // Buffers refer to the body, which does not outlive this call: copied once, aligned for Arrow.
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
