#include <arrow/api.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/core/resources_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/data/descriptor_stream_internal.h"
#include "manta/data/lane_columns_internal.h"
#include "manta/data/row_bytes_internal.h"
#include "manta/data/wide_query_internal.h"
#include "manta/data/wide_types_internal.h"

namespace manta::data {
namespace {

using TypePtr = std::shared_ptr<arrow::DataType>;

constexpr int64_t kLargestBatchBytes = 32 << 20;
// DuckDB does not count everything that it uses, and there is more than DuckDB, rows on their way
// to it first of all: with a limit of 102 MB, sorting 512 MB took a process 305 MB in all. And it
// keeps about 1.7 bytes of each row that it sorts in memory, however much it spills: with less than
// 280 MB it cannot sort 160 million.
constexpr int64_t kBesideDuckdb = 160'000'000;
constexpr double kLeastPart = 0.4, kMostPart = 0.65;

int64_t memory_limit(int64_t operation) {
  auto part = [&](double share) {
    return static_cast<int64_t>(static_cast<double>(operation) * share);
  };
  return std::max(part(kLeastPart), std::min(part(kMostPart), operation - kBesideDuckdb));
}

constexpr int64_t kSmallestLimit = 64 << 20;  // with less, joins fail
// Each thread sorts parts of rows of its own, and to merge them needs a block of each part: with 65
// MiB, two threads fail on 12 million rows of 72 bytes, and one sorts 24 million.
constexpr int64_t kBytesOfThread = 256 << 20;

// Throws what a text of DuckDB's says.
// `came`: "5 rows with 40 bytes had come; ...".
[[noreturn]] void throw_duckdb_error(const std::string& text, const std::string& folder,
                                     const std::string& came) {
  auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  if (has("No space left on device") || has("max_temp_directory_size") || has("File too large")) {
    throw Error(ErrorKind::kIo, str("what does not fit into memory cannot be written to '", folder,
                                    "': ", text, room_text(folder), "; ", came, kMoreRoom));
  }
  if (has("Out of Memory")) {
    throw TooLittleMemory(str("DuckDB needs more memory than it may use: ", text,
                              "; give the operation more with memory_bytes"));
  }
  if (has("IO Error")) throw Error(ErrorKind::kIo, text);
  throw Error(ErrorKind::kInvalidArgument, text);
}

}  // namespace

struct WideQuery::Input {
  std::vector<TypePtr> lanes;
  NextBatch next;
  std::mutex mutex;  // of what follows
  std::shared_ptr<arrow::RecordBatch> batch;
  int64_t row = 0;
  bool ended = false;
  std::exception_ptr error;
  int threads = 1;
  std::optional<int64_t> count;
  int64_t rows_came = 0, bytes_came = 0;  // for errors

  static void bind(duck::BindInfo info) {
    auto& input = *static_cast<Input*>(duckdb().bind_get_extra_info(info));
    for (size_t i = 0; i < input.lanes.size(); ++i) {
      auto type = duckdb().create_logical_type(lane_of(*input.lanes[i]));
      duckdb().bind_add_result_column(info, str("c", i).c_str(), type);
      duckdb().destroy_logical_type(&type);
    }
    if (input.count) {
      duckdb().bind_set_cardinality(info, static_cast<uint64_t>(*input.count), /*is_exact=*/true);
    }
  }
  static void init(duck::InitInfo info) {
    auto& input = *static_cast<Input*>(duckdb().init_get_extra_info(info));
    duckdb().init_set_max_threads(info, static_cast<uint64_t>(input.threads));
  }
  static void call(duck::FunctionInfo info, duck::Chunk chunk) {
    auto& input = *static_cast<Input*>(duckdb().function_get_extra_info(info));
    std::shared_ptr<arrow::RecordBatch> batch;
    int64_t first = 0;
    int64_t rows = 0;
    try {
      rows = input.take(&batch, &first);
      for (int i = 0; rows > 0 && i < batch->num_columns(); ++i) {
        fill_vector(duckdb().data_chunk_get_vector(chunk, static_cast<uint64_t>(i)),
                    *batch->column(i), first, rows);
      }
    } catch (...) {
      std::lock_guard lock(input.mutex);
      if (!input.error) input.error = std::current_exception();
      duckdb().function_set_error(info, "the rows could not be read");
      rows = 0;
    }
    duckdb().data_chunk_set_size(chunk, static_cast<uint64_t>(rows));
  }

  // The next rows, as many as a chunk holds.
  int64_t take(std::shared_ptr<arrow::RecordBatch>* from, int64_t* first) {
    std::lock_guard lock(mutex);
    while (!ended && (!batch || row == batch->num_rows())) {
      batch = next();
      row = 0;
      ended = !batch;
      if (ended) break;
      rows_came += batch->num_rows();
      bytes_came += bytes_of_batch(*batch);
    }
    if (ended) return 0;
    int64_t rows = std::min(batch->num_rows() - row, static_cast<int64_t>(duckdb().vector_size()));
    *from = batch;
    *first = row;
    row += rows;
    return rows;
  }
};

struct WideQuery::Impl {
  explicit Impl(WideLimits given)
      : limits(std::move(given)),
        folder(temporary_folder()),
        room_before(room_text(folder.path(), "had", "before")) {
    require_room_for_duckdb();
    duck::Config config = nullptr;
    duckdb().create_config(&config);
    auto set = [&](const char* name, const std::string& value) {
      MANTA_CHECK(duckdb().set_config(config, name, value.c_str()) == duck::kSuccess, name);
    };
    int64_t limit = std::max(memory_limit(limits.memory_bytes), kSmallestLimit);
    set("memory_limit", str(limit, "B"));
    set("threads", str(std::clamp<int64_t>(limit / kBytesOfThread, 1, limits.threads)));
    set("temp_directory", folder.path() + "/spilled");
    set("preserve_insertion_order", "false");  // what needs an order asks for it
    set("autoinstall_known_extensions", "false");
    set("autoload_known_extensions", "false");
    char* error = nullptr;
    auto opened = duckdb().open_ext(nullptr, &database, config, &error);
    duckdb().destroy_config(&config);
    if (opened != duck::kSuccess) {
      std::string text = error ? error : "no reason given";
      duckdb().free(error);
      throw Error(ErrorKind::kResources, "DuckDB does not start: " + text);
    }
    if (duckdb().connect(database, &connection) != duck::kSuccess) {
      duckdb().close(&database);
      throw Error(ErrorKind::kResources, "DuckDB does not start");
    }
  }
  ~Impl() {
    if (connection) duckdb().disconnect(&connection);
    if (database) duckdb().close(&database);
  }

  [[noreturn]] void fail(const char* text) const {
    int64_t rows = 0, bytes = 0;
    for (const auto& input : inputs) {
      std::lock_guard lock(input->mutex);
      if (input->error) std::rethrow_exception(input->error);
      rows += input->rows_came;
      bytes += input->bytes_came;
    }
    throw_duckdb_error(text ? text : "DuckDB failed", folder.path(),
                       str(rows, " rows with ", bytes, " bytes had come", room_before));
  }
  bool stopped() const { return limits.stopping && limits.stopping(); }

  const WideLimits limits;
  const SessionFolder folder;  // removed after the database is closed
  const std::string room_before;
  duck::Database database = nullptr;
  duck::Connection connection = nullptr;
  std::vector<std::unique_ptr<Input>> inputs;
};

WideQuery::WideQuery(WideLimits limits) : impl_(std::make_unique<Impl>(std::move(limits))) {}
WideQuery::~WideQuery() = default;

void WideQuery::add_input(const std::string& name, std::vector<TypePtr> lanes, NextBatch next,
                          std::optional<int64_t> count) {
  auto input = std::make_unique<Input>();
  input->lanes = std::move(lanes);
  input->next = std::move(next);
  input->threads = impl_->limits.threads;
  input->count = count;
  auto function = duckdb().create_table_function();
  duckdb().table_function_set_name(function, name.c_str());
  duckdb().table_function_set_extra_info(function, input.get(), nullptr);
  duckdb().table_function_set_bind(function, &Input::bind);
  duckdb().table_function_set_init(function, &Input::init);
  duckdb().table_function_set_function(function, &Input::call);
  auto state = duckdb().register_table_function(impl_->connection, function);
  duckdb().destroy_table_function(&function);
  MANTA_CHECK(state == duck::kSuccess, "an input of a query that DuckDB refuses");
  impl_->inputs.push_back(std::move(input));
}

namespace {

// What a query holds while it runs, released in the order that DuckDB needs. One that has not come
// to its end is brought there first: its threads may be at work on rows that nobody will take.
struct Running {
  explicit Running(duck::Connection to) : connection(to) {}
  ~Running() {
    release_chunk();
    if ((has_result && !at_end) || (pending && !has_result)) duckdb().interrupt(connection);
    while (pending && !has_result && is_at_work(duckdb().pending_execute_task(pending))) {
    }
    while (has_result && !at_end && next_chunk()) release_chunk();
    if (has_result) duckdb().destroy_result(&result);
    if (pending) duckdb().destroy_pending(&pending);
    if (prepared) duckdb().destroy_prepare(&prepared);
  }
  Running(const Running&) = delete;

  // Sleeps a little while other threads are at work, or blocked by the one who reads.
  static bool is_at_work(duck::PendingState state) {
    if (state == duck::kNoTasks) std::this_thread::sleep_for(std::chrono::microseconds(200));
    return state != duck::kFailed && state != duck::kResultReady;
  }
  // Null at the end of the rows, and after an error.
  duck::Chunk next_chunk() {
    chunk = duckdb().fetch_chunk(result);
    if (!chunk) at_end = true;
    return chunk;
  }
  void release_chunk() {
    if (chunk) duckdb().destroy_data_chunk(&chunk);
    chunk = nullptr;
  }

  const duck::Connection connection;
  duck::Prepared prepared = nullptr;
  duck::Pending pending = nullptr;
  duck::Result result = {};
  duck::Chunk chunk = nullptr;
  bool has_result = false;
  bool at_end = false;
};

}  // namespace

bool WideQuery::run(const std::string& sql, const std::vector<TypePtr>& lanes,
                    const std::function<void(std::shared_ptr<arrow::RecordBatch>)>& take) {
  Running running(impl_->connection);
  if (duckdb().prepare(impl_->connection, sql.c_str(), &running.prepared) != duck::kSuccess) {
    impl_->fail(duckdb().prepare_error(running.prepared));
  }
  if (duckdb().pending_prepared_streaming(running.prepared, &running.pending) != duck::kSuccess) {
    impl_->fail(duckdb().pending_error(running.pending));
  }
  while (true) {
    if (impl_->stopped()) return false;
    auto state = duckdb().pending_execute_task(running.pending);
    if (state == duck::kFailed) impl_->fail(duckdb().pending_error(running.pending));
    if (!Running::is_at_work(state)) break;
    // Not if others are at work, who may as well wait for rows that do not come.
    if (state == duck::kResultNotReady) count_work(impl_->limits.work);
  }
  running.has_result = true;
  if (duckdb().execute_pending(running.pending, &running.result) != duck::kSuccess) {
    impl_->fail(duckdb().result_error(&running.result));
  }
  LaneColumns columns(lanes);
  while (true) {
    if (impl_->stopped()) return false;
    duck::Chunk chunk = running.next_chunk();
    if (!chunk) break;
    count_work(impl_->limits.work);
    auto rows = static_cast<int64_t>(duckdb().data_chunk_get_size(chunk));
    for (int64_t row = 0; row < rows;) {
      int64_t some = std::min(rows - row, kPieceRows - columns.rows());
      columns.add(chunk, row, some);
      row += some;
      if (columns.rows() == kPieceRows || columns.bytes() > kLargestBatchBytes) {
        take(columns.take());
      }
    }
    running.release_chunk();
    if (rows == 0) break;
  }
  if (const char* error = duckdb().result_error(&running.result)) impl_->fail(error);
  if (columns.rows() > 0) take(columns.take());
  return true;
}

int64_t default_wide_memory(const std::string& root) {
  return detect_resources({}, root).memory / 4;
}

}  // namespace manta::data
