#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "manta/data/cell_internal.h"
#include "manta/data/pass_progress_internal.h"

namespace manta::data {
namespace {

constexpr std::chrono::milliseconds kBetweenLines{100};
constexpr size_t kLongestWhat = 40;

std::string scaled_count(double count) {
  for (const char* unit : {"", " k", " M", " G"}) {
    if (count < 1000) return fmt::format("{:.{}f}{}", count, *unit ? 1 : 0, unit);
    count /= 1000;
  }
  return fmt::format("{:.1f} T", count);
}

std::string time_left(double seconds) {
  auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole < 120) return fmt::format("{} s", whole);
  if (whole < 7200) return fmt::format("{} min", whole / 60);
  return fmt::format("{} h", whole / 3600);
}

}  // namespace

std::string progress_text(const std::string& what, int64_t rows, int64_t bytes, double seconds,
                          double done) {
  std::string text =
      printable(what, kLongestWhat) + ": " + scaled_count(static_cast<double>(rows)) + " rows";
  if (seconds > 0) text += ", " + scaled_count(static_cast<double>(rows) / seconds) + " rows/s";
  text += ", " + scaled_count(static_cast<double>(bytes)) + (bytes < 1000 ? " B" : "B");
  if (!(done > 0 && done <= 1)) return text;
  text += fmt::format(", {:.0f}%", 100 * done);
  double left = seconds / done - seconds;
  if (done < 1 && left < 1e7) text += ", " + time_left(left) + " left";
  return text;
}

bool PassProgress::wanted(const std::string& what) {
  return !what.empty() && ::isatty(STDERR_FILENO) == 1;
}

void PassProgress::update(double done) {
  auto now = Clock::now();
  if (now < next_) return;
  next_ = now + kBetweenLines;
  double seconds = std::chrono::duration<double>(now - begin_).count();
  line_.set(progress_text(what_, rows_, bytes_, seconds, done));
}

}  // namespace manta::data
