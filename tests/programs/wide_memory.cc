// Sorts, shuffles, groups or joins made-up rows within a memory budget, checks what comes out, and
// says how much memory it took: wide_memory <operation> <rows> <memory_bytes> [most bytes]
//
// The operation `stream` writes the rows to Parquet files in the temporary folder and reads them
// again, filtered and through a function; `row_group` writes rows of 8 KB, as many bytes in all, as
// one row group of one file, and reads that. These have no budget of their own: what a stream reads
// ahead has a fixed one. `hot_sort`, `hot_groups` and `hot_join` have texts of different lengths,
// as keys, too, and a tenth of all rows has one key; in the join each key has several rows on both
// sides.
//
// Prints "ready" when the operation begins, and {"peak": bytes of its own memory, "arrow": the most
// that Arrow held, "data": bytes of the rows} at the end. Exits with 1 if it took more than the
// last argument.

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/writer.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "manta/core/init.h"
#include "manta/data/grouped.h"
#include "manta/data/sources.h"
#include "usage.h"

using namespace manta;  // NOLINT

namespace {

// Memory of the process itself: not files that are mapped, which the kernel drops when it needs
// room.
int64_t own_memory() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    int64_t kilobytes = 0;
    if (word == "RssAnon:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

class PeakMemory {
 public:
  PeakMemory()
      : thread_([this] {
          while (!done_) {
            peak_ = std::max<int64_t>(peak_, own_memory());
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        }) {}
  ~PeakMemory() { end(); }
  int64_t end() {
    done_ = true;
    if (thread_.joinable()) thread_.join();
    return peak_;
  }

 private:
  std::atomic<bool> done_ = false;
  std::atomic<int64_t> peak_ = 0;
  std::thread thread_;
};

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

const int64_t* values(const arrow::RecordBatch& batch, const std::string& name) {
  return std::static_pointer_cast<arrow::Int64Array>(batch.GetColumnByName(name))->raw_values();
}

std::shared_ptr<arrow::RecordBatch> as_it_is(const std::shared_ptr<arrow::RecordBatch>& batch) {
  return batch;
}

// A temporary folder, which the destructor removes.
class ScratchFolder {
 public:
  ScratchFolder() {
    path_ = (std::filesystem::temp_directory_path() / "wide_memory-XXXXXX").string();
    if (!::mkdtemp(path_.data())) throw std::runtime_error("no folder " + path_);
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// How many rows came out. Each third one is filtered out, and the others are there once.
int64_t stream(const Dataset& all, int64_t rows) {
  ScratchFolder folder;
  require(all.write_parquet(folder.path()) == rows, "another number of rows was written");
  Dataset read = data::read_parquet(folder.path()).filter(col("id") % 3 != 0).map_batches(as_it_is);
  int64_t given = 0;
  uint64_t sum = 0, expected = 0;
  for (auto& batch : read.iter_batches({.batch_size = 32'768})) {
    const int64_t* ids = values(*batch, "id");
    for (int64_t i = 0; i < batch->num_rows(); ++i, ++given) sum += static_cast<uint64_t>(ids[i]);
  }
  int64_t wanted = 0;
  for (int64_t id = 0; id < rows; ++id) {
    if (id % 3 == 0) continue;
    ++wanted;
    expected += static_cast<uint64_t>(id);
  }
  require(given == wanted && sum == expected, "rows were lost or doubled");
  return rows;
}

// Rows of 8 KB. Arrow writes on a separate thread, whose memory does not count for the reader.
int64_t row_group(int64_t rows) {
  ScratchFolder folder;
  constexpr int64_t kWidth = 8'192, kAtATime = 4'096;
  auto schema =
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("text", arrow::utf8())});
  std::string path = folder.path() + "/a.parquet";
  {
    auto out = arrow::io::FileOutputStream::Open(path).ValueOrDie();
    auto properties = parquet::WriterProperties::Builder()
                          .disable_dictionary()
                          ->max_row_group_length(rows)
                          ->compression(arrow::Compression::SNAPPY)
                          ->build();
    auto writer =
        parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(), out, properties)
            .ValueOrDie();
    for (int64_t first = 0; first < rows; first += kAtATime) {
      arrow::Int64Builder ids;
      arrow::StringBuilder texts;
      for (int64_t id = first; id < std::min(rows, first + kAtATime); ++id) {
        require(ids.Append(id).ok(), "an id");
        require(texts.Append(std::string(kWidth, static_cast<char>('a' + id % 26))).ok(), "a text");
      }
      int64_t count = ids.length();
      auto batch = arrow::RecordBatch::Make(
          schema, count, {ids.Finish().ValueOrDie(), texts.Finish().ValueOrDie()});
      require(writer->WriteRecordBatch(*batch).ok(), "writing");
    }
    require(writer->Close().ok() && out->Close().ok(), "closing the file");
  }
  int64_t given = 0;
  for (auto& batch : data::read_parquet(path).filter(col("id") >= 0).iter_batches()) {
    const int64_t* ids = values(*batch, "id");
    auto texts = std::static_pointer_cast<arrow::StringArray>(batch->GetColumnByName("text"));
    for (int64_t i = 0; i < batch->num_rows(); ++i, ++given) {
      auto text = texts->GetView(i);
      require(ids[i] == given && text.size() == kWidth &&
                  text.back() == static_cast<char>('a' + given % 26),
              "a row in the wrong place");
    }
  }
  require(given == rows, "another number of rows came out");
  return rows;
}

constexpr int64_t kHotOf = 10;        // one row in this many has the hot key
constexpr int64_t kPartners = 4;      // of each key, on the right
constexpr int64_t kRowsOfAKey = 100;  // on the left, of the others

// The key of row `id`, a number below rows / kRowsOfAKey; 0 is hot.
int64_t hot_key(int64_t id, int64_t rows) {
  return id % kHotOf == 0 ? 0 : id % (rows / kRowsOfAKey);
}
Dataset hot_rows(int64_t rows) {
  Expression key = if_else(col("id") % kHotOf == 0, 0, col("id") % (rows / kRowsOfAKey));
  Expression text =
      lit("a key whose text is longer than what fits beside its length, ") + key.cast("string");
  return data::range(rows)
      .with_column("number", key)
      .with_column("key", text)
      .with_column("text", if_else(col("id") % 2 == 0, text, "short"));
}

int64_t hot_sort(int64_t rows, int64_t memory) {
  int64_t given = 0;
  std::string last;
  int64_t last_id = -1;
  uint64_t sum = 0;
  for (auto& batch : hot_rows(rows).sort("key", {.memory_bytes = memory}).iter_batches()) {
    const int64_t* ids = values(*batch, "id");
    auto keys = std::static_pointer_cast<arrow::StringArray>(batch->GetColumnByName("key"));
    for (int64_t i = 0; i < batch->num_rows(); ++i, ++given) {
      auto key = keys->GetView(i);
      require(last < key || (last == key && last_id < ids[i]), "a row in the wrong place");
      last = key;
      last_id = ids[i];
      sum += static_cast<uint64_t>(ids[i]);
    }
  }
  auto n = static_cast<uint64_t>(rows);
  require(sum == n * (n - 1) / 2, "rows were lost or doubled");
  return given;
}

int64_t hot_groups(int64_t rows, int64_t memory) {
  std::vector<int64_t> expected(static_cast<size_t>(rows / kRowsOfAKey), 0);
  for (int64_t id = 0; id < rows; ++id) expected[static_cast<size_t>(hot_key(id, rows))] += id;
  int64_t given = 0;
  Dataset groups = hot_rows(rows)
                       .groupby("key", {.memory_bytes = memory})
                       .aggregate({agg::sum("id"), agg::max("number"), agg::count()});
  for (auto& batch : groups.iter_batches()) {
    const int64_t *sums = values(*batch, "sum(id)"), *numbers = values(*batch, "max(number)"),
                  *counts = values(*batch, "count()");
    for (int64_t i = 0; i < batch->num_rows(); ++i) {
      require(sums[i] == expected[static_cast<size_t>(numbers[i])], "a wrong sum");
      given += counts[i];
    }
  }
  return given;
}

int64_t hot_join(int64_t rows, int64_t memory) {
  Dataset right = data::range(rows / kRowsOfAKey * kPartners)
                      .with_column("number", col("id") % (rows / kRowsOfAKey))
                      .with_column("partner", col("id"))
                      .select_columns({"number", "partner"});
  Dataset pairs = hot_rows(rows).join(right, "number", {.memory_bytes = memory});
  int64_t given = 0;
  for (auto& batch : pairs.iter_batches()) {
    const int64_t *ids = values(*batch, "id"), *partners = values(*batch, "partner");
    for (int64_t i = 0; i < batch->num_rows(); ++i, ++given) {
      int64_t id = given / kPartners;
      require(ids[i] == id, "a pair in the wrong place");
      require(partners[i] == hot_key(id, rows) + given % kPartners * (rows / kRowsOfAKey),
              "a wrong partner");
    }
  }
  require(given == rows * kPartners, "pairs were lost or doubled");
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  init(argc, argv, {.resources = {.cpus = 2}});
  const char* text =
      "wide_memory sort|random_shuffle|groupby|join|stream|row_group|hot_sort|hot_groups|hot_join "
      "<rows> <memory_bytes> [most bytes]";
  if (auto done = usage(argc, argv, text, 3, 4)) return *done;
  std::string operation = argv[1];
  int64_t rows = std::stoll(argv[2]), memory = std::stoll(argv[3]);
  int64_t most = argc > 4 ? std::stoll(argv[4]) : INT64_MAX;
  // 64 bytes a row. The key has every value of [0, rows) once, in no order, if 7919 does not divide
  // rows.
  Dataset all = data::range(rows).with_column("key", col("id") * 7919 % rows);
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    all = all.with_column(name, col("id") * 0.5 + col("key"));
  }
  std::cout << "ready" << std::endl;
  PeakMemory peak;
  try {
    int64_t given = 0;
    if (operation == "sort" || operation == "random_shuffle") {
      Dataset moved = operation == "sort" ? all.sort("key", {.memory_bytes = memory})
                                          : all.random_shuffle({.seed = 1, .memory_bytes = memory});
      uint64_t sum = 0;
      for (auto& batch : moved.iter_batches({.batch_size = 32'768})) {
        const int64_t* keys = values(*batch, "key");
        for (int64_t i = 0; i < batch->num_rows(); ++i, ++given) {
          int64_t key = keys[i];
          require(operation != "sort" || key == given, "a row in the wrong place");
          sum += static_cast<uint64_t>(key);
        }
      }
      auto n = static_cast<uint64_t>(rows);
      require(sum == n * (n - 1) / 2, "rows were lost or doubled");
    } else if (operation == "groupby") {
      Dataset groups = all.groupby("key", {.memory_bytes = memory})
                           .aggregate({agg::sum("id"), agg::mean("a"), agg::max("b")});
      for (auto& batch : groups.iter_batches({.batch_size = 32'768})) {
        const int64_t *keys = values(*batch, "key"), *sums = values(*batch, "sum(id)");
        for (int64_t i = 0; i < batch->num_rows(); ++i, ++given) {
          require(keys[i] == given, "a group in the wrong place");
          require(sums[i] * 7919 % rows == given, "a wrong sum");
        }
      }
    } else if (operation == "join") {
      Dataset right =
          all.select_columns({"id", "key"}).with_column("right", col("id")).drop_columns({"id"});
      Dataset pairs = all.join(right, "key", {.memory_bytes = memory});
      for (auto& batch : pairs.iter_batches({.batch_size = 32'768})) {
        const int64_t *left = values(*batch, "id"), *partner = values(*batch, "right");
        for (int64_t i = 0; i < batch->num_rows(); ++i, ++given) {
          require(left[i] == given && partner[i] == given, "a pair in the wrong place");
        }
      }
    } else if (operation == "stream") {
      given = stream(all, rows);
    } else if (operation == "hot_sort") {
      given = hot_sort(rows, memory);
    } else if (operation == "hot_groups") {
      given = hot_groups(rows, memory);
    } else if (operation == "hot_join") {
      given = hot_join(rows, memory);
    } else if (operation == "row_group") {
      require(row_group(rows * 64 / 8'192) == rows * 64 / 8'192, "rows were lost");
      given = rows;
    } else {
      throw std::runtime_error("no operation " + operation);
    }
    require(given == rows, "another number of rows came out");
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 2;
  }
  int64_t used = peak.end();
  std::cout << "{\"peak\": " << used
            << ", \"arrow\": " << arrow::default_memory_pool()->max_memory()
            << ", \"data\": " << rows * 64 << "}" << std::endl;
  if (used <= most) return 0;
  std::cerr << operation << " of " << rows * 64 << " bytes took " << used
            << " bytes of memory, more than " << most << std::endl;
  return 1;
}
