#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>

#include "manta/base/deadline.h"
#include "manta/base/error_internal.h"
#include "manta/base/names_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/pipeline_internal.h"
#include "manta/data/reading_choice_internal.h"
#include "manta/data/row_bytes_internal.h"
#include "manta/io/unique_fd.h"

namespace manta::data {
namespace {

constexpr int64_t kMeasuredWindows = 3;
constexpr double kMeasuredSeconds = 0.1;
constexpr double kWorthwhile = 0.8;  // measurements differ by so much

// For how long the calling thread could have run and had no processor. 0 where the system does not
// say.
double seconds_without_processor() {
  UniqueFd file(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  char text[100] = {};
  uint64_t ran = 0, waited = 0;
  if (!file || ::read(file.get(), text, sizeof(text) - 1) <= 0) return 0;
  if (std::sscanf(text, "%" SCNu64 " %" SCNu64, &ran, &waited) != 2) return 0;
  return 1e-9 * static_cast<double>(waited);
}

// What others do on this machine while it begins says nothing about the epochs to come; nor does it
// count for the connection, of which the best of some probes does.
class WorkingTime {
 public:
  double seconds() const {
    double all = std::chrono::duration<double>(Clock::now() - begin_).count();
    return std::max(all - (seconds_without_processor() - waited_), 1e-9);
  }

 private:
  double waited_ = seconds_without_processor();
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

MeasuredReading measure_reading(const std::shared_ptr<const Plan>& plan, const Position& from) {
  Pipeline pipeline(plan);
  auto windows = pipeline.windows(from.epoch);
  auto count = static_cast<int64_t>(windows.size());
  MeasuredReading measured;
  measured.windows_left = std::max<int64_t>(count - from.window, 0);
  std::atomic<int64_t> rows_decoded = 0;
  int64_t end = from.window + std::min(measured.windows_left, kMeasuredWindows);
  double all_seconds = 0;
  for (int64_t i = from.window; i < end && all_seconds < kMeasuredSeconds; ++i) {
    // The first one opens files and touches memory that the others find. It counts if it is alone.
    if (i == from.window + 1) measured = {.windows_left = measured.windows_left};
    WorkingTime time;
    const auto& fragments = windows[static_cast<size_t>(i)];
    auto count_bytes = [&](const auto& batch) { measured.bytes += bytes_of_batch(*batch); };
    pipeline.run(fragments, from.epoch, i, rows_decoded, [&](const auto& batch) {
      if (pipeline.finishes()) {
        pipeline.finish(*batch, fragments, count_bytes);
      } else {
        count_bytes(batch);
      }
    });
    double seconds = time.seconds();
    measured.seconds += seconds;
    all_seconds += seconds;
    ++measured.windows;
  }
  return measured;
}

ReadingChoice choose_reading(const MeasuredReading& measured, const ReadingFacts& facts) {
  if (measured.windows_left < facts.nodes) {
    return {false, str("there are fewer windows (", measured.windows_left, ") than hosts (",
                       facts.nodes, ")")};
  }
  if (facts.bytes_per_second <= 0) return {false, "the connection to another host did not answer"};
  double nodes = facts.nodes, windows = static_cast<double>(measured.windows);
  double read = measured.seconds / windows / facts.threads;
  double send = static_cast<double>(measured.bytes) / windows / facts.bytes_per_second;
  // The host that has most of the windows reads this part of them.
  auto left = static_cast<double>(measured.windows_left);
  double part = static_cast<double>((measured.windows_left + facts.nodes - 1) / facts.nodes) / left;
  // A host needs 1 / nodes of all rows, and the others have read all but 1 / nodes of these. It
  // sends as many. `send` has what both ends do, one after the other, of which it does one for the
  // rows that it sends and the other for those that it receives.
  double split = read * part + send * (nodes - 1) / (nodes * nodes);
  return {split < kWorthwhile * read,
          fmt::format("a window takes a host {:.1f} ms to read and {:.1f} ms to send: {:.1f} ms if "
                      "{} hosts share the windows",
                      1e3 * read, 1e3 * send, 1e3 * split, facts.nodes)};
}

std::string why_not_split(const Plan& plan) {
  auto place = plan.last_materialising();
  if (!place) return "";
  return str("each host needs all rows for ", plan.operations[*place]->to_string());
}

}  // namespace manta::data
