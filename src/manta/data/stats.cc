#include "manta/data/stats.h"

#include <arrow/api.h>
#include <fmt/format.h>

#include "manta/data/cell_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/operation_internal.h"
#include "manta/data/pass_times_internal.h"
#include "manta/data/processors_internal.h"
#include "manta/data/stream_internal.h"

namespace manta {
namespace data {

PassTimes::Part& PassTimes::of(const Operation& operation) {
  std::lock_guard lock(mutex_);
  for (auto& part : operations_) {
    if (part.operation == &operation) return part;
  }
  auto& part = operations_.emplace_back();
  part.name = operation.to_string();
  part.operation = &operation;
  return part;
}

int64_t& file_nanoseconds() {
  static thread_local int64_t nanoseconds = 0;
  return nanoseconds;
}

}  // namespace data

DatasetStats Dataset::stats() const {
  auto in_seconds = [](int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; };
  auto times = std::make_shared<data::PassTimes>();
  DatasetStats stats;
  auto begin = data::PassClock::now();
  data::Stream stream(plan_, {},
                      {.threads = data::all_processors(), .progress = "stats", .times = times});
  while (auto block = stream.next()) {
    stats.rows += block->batch->num_rows();
    stats.bytes += block->bytes;
  }
  stats.seconds = in_seconds(data::nanoseconds_since(begin));
  stats.rows_decoded = stream.rows_decoded();
  stats.wait_seconds = in_seconds(times->wait);
  stats.read_seconds = in_seconds(times->read);
  stats.decode_seconds = in_seconds(times->decode);
  stats.temporary_seconds = in_seconds(times->temporary);
  for (const auto& part : times->operations()) {
    stats.operations.push_back({part.name, in_seconds(part.nanoseconds), part.rows});
  }
  return stats;
}

std::string DatasetStats::to_string() const {
  std::string text = fmt::format("{} rows, {} bytes in {:.3f} s, {:.3f} s of it waiting for rows\n",
                                 rows, bytes, seconds, wait_seconds);
  text += "over all threads:\n";
  auto line = [&](const std::string& what, double time, const std::string& more) {
    text += fmt::format("  {:9.3f} s  {}{}\n", time, what, more);
  };
  line("read", read_seconds, "");
  line("decode", decode_seconds, fmt::format(", {} rows", rows_decoded));
  if (temporary_seconds > 0) line("read temporary files", temporary_seconds, "");
  for (const auto& each : operations) {
    line(data::printable(each.operation, 80), each.seconds, fmt::format(", {} rows", each.rows));
  }
  return text;
}

}  // namespace manta
