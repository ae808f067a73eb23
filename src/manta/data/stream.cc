#include <arrow/api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/pass_progress_internal.h"
#include "manta/data/pass_times_internal.h"
#include "manta/data/pipeline_internal.h"
#include "manta/data/row_bytes_internal.h"
#include "manta/data/stage_internal.h"
#include "manta/data/stop_check_internal.h"
#include "manta/data/stream_internal.h"

namespace manta::data {
namespace {

constexpr std::chrono::milliseconds kBetweenUpdates{100};

// Thrown when a thread's result is not wanted any more.
struct Stopped : std::exception {};

// A window that threads have begun, up to the moment when its last block is taken.
struct Window {
  bool done = false;
  bool to_finish = false;  // its blocks go through Pipeline::finish when they are taken
  std::exception_ptr error;
  std::deque<std::shared_ptr<arrow::RecordBatch>> blocks;  // that were not taken yet
  std::deque<int64_t> block_bytes;
  int64_t guess = 0;  // of the bytes of all its blocks, until it is done
  int64_t made = 0, taken = 0;

  // How many bytes it counts in the budget.
  int64_t counted() const { return (done ? made : std::max(guess, made)) - taken; }
};

// Halves a batch with too many bytes, unless they belong to a few rows, or to something that all
// rows share.
template <class Take>
void cut_by_bytes(std::shared_ptr<arrow::RecordBatch> block, int64_t bytes, int64_t most_bytes,
                  Take& take) {
  int64_t half = block->num_rows() / 2;
  if (bytes <= most_bytes || half == 0) return take(std::move(block), bytes);
  auto first = block->Slice(0, half), second = block->Slice(half);
  int64_t first_bytes = bytes_of_batch(*first), second_bytes = bytes_of_batch(*second);
  if (std::max(first_bytes, second_bytes) > bytes / 4 * 3) return take(std::move(block), bytes);
  cut_by_bytes(std::move(first), first_bytes, most_bytes, take);
  cut_by_bytes(std::move(second), second_bytes, most_bytes, take);
}

// Guesses by the types of the columns that are read, or of those that come out if these are known
// and wider.
int64_t guess_row_bytes(const Pipeline& pipeline) {
  auto schema = pipeline.plan().source->schema();
  int64_t read = 0;
  for (const auto& name : pipeline.columns_read()) {
    read += guess_bytes_of(*schema->GetFieldByName(name)->type());
  }
  const auto& given = pipeline.schema_before_finish();
  return std::max(read, given ? guess_bytes_of_row(*given) : 0);
}

}  // namespace

struct Stream::Impl {
  Impl(std::shared_ptr<const Plan> plan, StreamStart start_at, StreamOptions stream_options,
       std::function<void()> when_ready)
      : pipeline(std::move(plan), stream_options.times.get(), stream_options.work,
                 stream_options.decoded, stream_options.coded),
        start(start_at),
        options(stream_options),
        on_ready(std::move(when_ready)),
        fragments(pipeline.plan().source->fragments()),
        windows(pipeline.windows(start.epoch)),
        row_bytes(guess_row_bytes(pipeline)),
        next_to_read(first_own(start.window)),
        next_to_give(next_to_read),
        first_row(start.window_first_row),
        window_first_row(start.window_first_row) {
    MANTA_CHECK(options.part >= 0 && options.part < options.parts &&
                    (options.by_window || options.parts == 1),
                "a part of a stream that there is not");
    if (options.threads < 1 || options.max_block_rows < 1) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("a stream needs a thread and blocks of at least a row, not ", options.threads,
                      " threads and ", options.max_block_rows, " rows"));
    }
    check_start();
    if (PassProgress::wanted(options.progress)) {
      progress.emplace(options.progress);
      for (int64_t i = 0; i < window_count(); ++i) all_expected += expected_rows(i);
    }
    start_threads();
  }

  ~Impl() { stop(); }

  void start_threads() {
    int count = options.threads + pipeline.waiting_threads();
    threads.reserve(static_cast<size_t>(count));
    try {
      for (int i = 0; i < count; ++i) {
        threads.push_back(start_thread("a thread to read data", [this] { read(); }));
      }
    } catch (const Error&) {
      if (threads.empty()) throw;  // the rows are the same with fewer
    } catch (...) {
      stop();
      throw;
    }
  }

  void stop() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    for (auto& thread : threads) thread.join();
    threads.clear();
  }

  void check_start() const {
    int64_t last = std::max<int64_t>(window_count() - 1, 0);
    if (start.epoch < 0 || start.window < 0 || start.window > last) {
      throw Error(ErrorKind::kCorrupt,
                  str("there is no window ", start.window, " in epoch ", start.epoch,
                      ": epochs begin with 0, and this one has the windows 0 to ", last));
    }
    if (auto rows = rows_before(start.window)) {
      if (start.window_first_row == *rows) return;
      throw Error(ErrorKind::kCorrupt,
                  str("window ", start.window, " cannot begin with row ", start.window_first_row,
                      ": the windows before it give ", *rows, " rows"));
    }
    int64_t most = 0;
    for (int64_t i = 0; i < start.window; ++i) most += expected_rows(i);
    const auto& operations = pipeline.plan().operations;
    bool may_be_more = std::any_of(operations.begin(), operations.end(),
                                   [](const auto& operation) { return operation->may_add_rows(); });
    for (const auto& fragment : fragments) may_be_more = may_be_more || !fragment.rows;
    if (start.window > 0 && may_be_more) most = std::numeric_limits<int64_t>::max();
    if (start.window_first_row < 0 || start.window_first_row > most) {
      throw Error(ErrorKind::kCorrupt,
                  str("window ", start.window, " cannot begin with row ", start.window_first_row,
                      ": the windows before it give at most ", most, " rows"));
    }
  }

  // Nothing if it is known only by running.
  std::optional<int64_t> rows_before(int64_t window) const {
    std::optional<int64_t> sum = 0;
    for (int64_t i = 0; i < window && sum; ++i) {
      for (size_t fragment : windows[static_cast<size_t>(i)]) {
        std::optional<int64_t> rows = fragments[fragment].rows;
        for (const auto& operation : pipeline.plan().operations) {
          rows = operation->rows_after(fragment, rows);
        }
        if (!rows) return std::nullopt;
        *sum += *rows;
      }
    }
    return sum;
  }

  int64_t first_own(int64_t window) const {
    return window + (options.part - window % options.parts + options.parts) % options.parts;
  }

  int64_t expected_rows(int64_t window) const {
    int64_t rows = 0;
    for (size_t fragment : windows[static_cast<size_t>(window)]) {
      rows += fragments[fragment].expected_rows;
    }
    return rows;
  }

  int64_t window_count() const { return static_cast<int64_t>(windows.size()); }

  int64_t guess_bytes(int64_t window) const {
    int64_t bytes = 0;
    bool too_many = __builtin_mul_overflow(expected_rows(window), row_bytes, &bytes);
    return too_many ? INT64_MAX / 4 : bytes;
  }

  // Types say little about strings and lists, and nothing about the results of functions. So
  // windows that are begun later count as large as the largest one so far.
  void learn_row_bytes(int64_t window, int64_t bytes) {
    int64_t rows = std::max<int64_t>(expected_rows(window), 1);
    row_bytes = std::max(row_bytes, (bytes + rows - 1) / rows);
  }

  // The window whose turn it is may always begin, whatever it needs: otherwise nothing would move
  // again.
  bool may_begin(int64_t window) const {
    if (!options.read_ahead) return waiting && window == next_to_give;
    if (window == next_to_give) return true;
    int64_t bytes = bytes_held + guess_bytes(window);
    bool enough = window > next_to_give + options.threads && bytes > options.enough_bytes;
    return bytes <= options.byte_budget && !enough;
  }

  void read() {
    StopCheck check([this] { return stopping || (outer_stopping && outer_stopping()); });
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] {
        return stopping || next_to_read >= window_count() || may_begin(next_to_read);
      });
      if (stopping || next_to_read >= window_count()) return;
      int64_t index = next_to_read;
      next_to_read += options.parts;
      Window& window = begun[index];  // the reference stays valid: the window is done before it is
                                      // removed
      window.guess = guess_bytes(index);
      bytes_held += window.counted();
      lock.unlock();
      std::exception_ptr error;
      try {
        run(index, window);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      learn_row_bytes(index, window.made);
      bytes_held -= window.counted();
      window.done = true;
      bytes_held += window.counted();
      window.error = error;
      if (error) next_to_read = window_count();
      bool is_next = index == next_to_give;
      pass_over_empty();
      changed.notify_all();
      if (!is_next || !on_ready) continue;
      lock.unlock();
      on_ready();
      lock.lock();
    }
  }

  void run(int64_t index, Window& window) {
    const auto& fragments_of_window = windows[static_cast<size_t>(index)];
    auto take = [&](const auto& batch) {
      int64_t most = options.max_block_rows;
      if (!pipeline.finishes()) return add(window, index, batch, most, false);
      int64_t wide = pipeline.rows_to_finish(*batch->schema());
      bool later = wide < INT64_MAX && !options.consume && !options.by_window;
      if (later) return add(window, index, batch, std::min(most, wide), true);
      pipeline.finish(*batch, fragments_of_window,
                      [&](const auto& rows) { add(window, index, rows, most, false); });
    };
    pipeline.run(fragments_of_window, start.epoch, index, rows_decoded, take);
  }

  // Adds rows in blocks with a limited number of rows. `to_finish`: Pipeline::finish will make
  // other rows of these.
  void add(Window& window, int64_t index, const std::shared_ptr<arrow::RecordBatch>& batch,
           int64_t most, bool to_finish) {
    if (options.consume) {
      {
        std::lock_guard lock(mutex);
        require_same_columns(*batch, index);
        consumed_rows += batch->num_rows();
        consumed_bytes += bytes_of_batch(*batch);
      }
      options.consume(batch);
      return;
    }
    int64_t batch_bytes = bytes_of_batch(*batch);
    auto take = [&](auto block, int64_t bytes) {
      add_block(window, index, std::move(block), bytes, to_finish);
    };
    for (int64_t row = 0; row < batch->num_rows(); row += most) {
      auto block = batch->Slice(row, most);
      int64_t bytes = batch_bytes * block->num_rows() / batch->num_rows();
      cut_by_bytes(std::move(block), bytes, options.max_block_bytes, take);
    }
  }

  // Waits until there is room for more, so that a large window need not be in memory as a whole.
  // The window whose turn it is can always give something.
  void add_block(Window& window, int64_t index, std::shared_ptr<arrow::RecordBatch> block,
                 int64_t bytes, bool to_finish) {
    std::unique_lock lock(mutex);
    if (stopping) throw Stopped();
    bytes_held -= window.counted();
    window.to_finish = to_finish;
    window.blocks.push_back(std::move(block));
    window.block_bytes.push_back(bytes);
    window.made += bytes;
    bytes_made += bytes;
    bytes_held += window.counted();
    if (options.by_window) return;  // the caller needs the whole window
    if (index == next_to_give && window.blocks.size() == 1) {
      changed.notify_all();
      if (on_ready) {
        lock.unlock();
        on_ready();
        lock.lock();
      }
    }
    changed.wait(lock, [&] {
      bool is_needed = index == next_to_give && window.blocks.empty();
      return stopping || is_needed || bytes_made <= options.byte_budget;
    });
  }

  // Blocks are cut so that this makes one batch from a block.
  void finish(StreamBlock& block) const {
    auto rows = std::move(block.batch);
    pipeline.finish(*rows, windows[static_cast<size_t>(block.window)],
                    [&](auto finished) { block.batch = std::move(finished); });
    block.bytes = bytes_of_batch(*block.batch);
  }

  // Advances `next_to_give` to a window with something to give, or to one to wait for.
  void pass_over_empty() {
    if (options.by_window) return;
    for (auto found = begun.find(next_to_give);
         found != begun.end() && found->second.done && !found->second.error &&
         found->second.blocks.empty();
         found = begun.find(next_to_give)) {
      begun.erase(found);
      if (progress) expected_given += expected_rows(next_to_give);
      next_to_give += options.parts;
      window_first_row = first_row;
    }
  }

  bool is_ready() const {
    if (next_to_give >= window_count()) return true;
    auto found = begun.find(next_to_give);
    if (found == begun.end()) return false;
    return found->second.done || (!options.by_window && !found->second.blocks.empty());
  }

  bool ready() {
    std::lock_guard lock(mutex);
    return is_ready();
  }

  std::optional<StreamBlock> next() {
    std::unique_lock lock(mutex);
    wait_until_ready(lock);
    if (next_to_give >= window_count()) return std::nullopt;
    Window& window = begun.at(next_to_give);
    if (window.blocks.empty()) std::rethrow_exception(window.error);
    StreamBlock block{std::move(window.blocks.front()), window.block_bytes.front(), first_row,
                      next_to_give, window_first_row};
    bool to_finish = window.to_finish;
    bytes_held -= window.counted();
    window.taken += block.bytes;
    bytes_made -= block.bytes;
    bytes_held += window.counted();
    window.blocks.pop_front();
    window.block_bytes.pop_front();
    first_row += block.batch->num_rows();
    pass_over_empty();
    changed.notify_all();
    double done = part_done();
    lock.unlock();
    if (to_finish) finish(block);
    if (progress) {
      progress->add(block.batch->num_rows(), block.bytes);
      progress->update(done);
    }
    require_same_columns(*block.batch, block.window);
    return block;
  }

  std::optional<StreamWindow> next_window() {
    std::unique_lock lock(mutex);
    wait_until_ready(lock);
    if (next_to_give >= window_count()) return std::nullopt;
    Window& window = begun.at(next_to_give);
    if (window.error) std::rethrow_exception(window.error);
    StreamWindow given{next_to_give, {window.blocks.begin(), window.blocks.end()}, window.made};
    bytes_made -= window.made;
    bytes_held -= window.counted();
    begun.erase(next_to_give);
    next_to_give += options.parts;
    changed.notify_all();
    lock.unlock();
    for (const auto& batch : given.batches) require_same_columns(*batch, given.window);
    return given;
  }

  void wait_until_ready(std::unique_lock<std::mutex>& lock) {
    if (is_ready()) return;
    auto begin = PassClock::now();
    waiting = true;
    changed.notify_all();
    // No deadline here: the source that reads has one, and ends with an error.
    while (!is_ready()) {
      if (!progress) {
        changed.wait(lock);
        continue;
      }
      changed.wait_for(lock, kBetweenUpdates);
      progress->add(std::exchange(consumed_rows, 0), std::exchange(consumed_bytes, 0));
      progress->update(part_done());
    }
    waiting = false;
    if (options.times) options.times->wait += nanoseconds_since(begin);
  }

  double part_done() const {
    if (all_expected <= 0) return 0;
    return static_cast<double>(expected_given) / static_cast<double>(all_expected);
  }

  // Callers put the blocks together, by the first block's columns.
  void require_same_columns(const arrow::RecordBatch& batch, int64_t window) {
    if (!columns) {
      columns = batch.schema();
      columns_of = window;
    }
    if (columns == batch.schema() || have_same_columns(*columns, *batch.schema())) return;
    // Their types are known from the source, whatever the encoding of each row group.
    if (pipeline.reads_coded()) return;
    throw Error(ErrorKind::kUserCode,
                str(function_of_columns(), " returned batches of different columns: {",
                    describe_columns(*columns), "} for ", describe(columns_of), ", then {",
                    describe_columns(*batch.schema()), "} for ", describe(window),
                    "; return the same names and types from every call, also for rows without "
                    "values"));
  }

  // The last operation whose columns are known from its rows only.
  std::string function_of_columns() const {
    const auto& plan = pipeline.plan();
    auto schemas = schemas_of(plan);
    for (size_t i = plan.operations.size(); i-- > 0;) {
      auto known = schemas[i] ? schemas[i] : arrow::schema({});
      bool is_function = false;
      try {
        is_function = !plan.operations[i]->schema_after(known);
      } catch (const Error&) {  // NOLINT: it looks at columns, so it is none
      }
      if (is_function) return plan.operations[i]->to_string();
    }
    return "a function before " + plan.source->to_string();
  }

  std::string describe(int64_t window) const {
    const auto& fragments_of_window = windows[static_cast<size_t>(window)];
    return pipeline.plan().source->describe(fragments_of_window[0]);
  }

  const Pipeline pipeline;
  const StreamStart start;
  const StreamOptions options;
  const std::function<void()> on_ready;
  // The check of the code that made this stream: its owner may have another reason to stop.
  const std::function<bool()> outer_stopping = StopCheck::current();
  const std::vector<Fragment>& fragments;
  const std::vector<std::vector<size_t>> windows;
  std::atomic<int64_t> rows_decoded = 0;
  // The columns of the first block, and its window. Only for next(); if the blocks are consumed,
  // guarded by the lock.
  std::shared_ptr<arrow::Schema> columns;
  int64_t columns_of = 0;
  std::optional<PassProgress> progress;  // for next() only
  int64_t all_expected = 0;              // rows, of all windows

  std::mutex mutex;  // of everything below
  std::condition_variable changed;
  std::map<int64_t, Window> begun;
  int64_t row_bytes = 0;  // about how many bytes a row is expected to have
  int64_t next_to_read = 0;
  int64_t next_to_give = 0;
  int64_t first_row = 0;
  int64_t window_first_row = 0;
  int64_t bytes_held = 0;                         // with those that windows are expected to have
  int64_t bytes_made = 0;                         // of blocks that are not yet taken
  int64_t expected_given = 0;                     // rows, of the windows before next_to_give
  int64_t consumed_rows = 0, consumed_bytes = 0;  // not yet reported to `progress`
  bool waiting = false;                           // whether a caller waits in next()
  std::atomic<bool> stopping = false;             // written with the lock

  std::vector<std::thread> threads;
};

Stream::Stream(std::shared_ptr<const Plan> plan, StreamStart start, StreamOptions options,
               std::function<void()> on_ready)
    : impl_(std::make_unique<Impl>(wanted_stage(plan, start.epoch, options), start, options,
                                   std::move(on_ready))) {}
Stream::~Stream() = default;
std::optional<StreamBlock> Stream::next() { return impl_->next(); }
std::optional<StreamWindow> Stream::next_window() { return impl_->next_window(); }
bool Stream::ready() const { return impl_->ready(); }
int64_t Stream::rows_decoded() const {
  return rows_decoded_for(*impl_->pipeline.plan().source).value_or(impl_->rows_decoded);
}

}  // namespace manta::data
