#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/status_line_internal.h"
#include "manta/train/active_runs_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/progress_internal.h"

namespace manta::train {
namespace {

// Without a terminal: the time between two lines that only show progress.
constexpr std::chrono::seconds kPlainInterval{10};
constexpr double kSmoothing = 0.3;
constexpr double kLongTime = 365.0 * 86400;
// How long standard error may take for the last lines; then they are dropped.
constexpr std::chrono::seconds kLastWords{1};
constexpr std::chrono::milliseconds kLater{20};

}  // namespace

std::string short_count(double count) {
  if (!std::isfinite(count) || count < 0) return "?";
  if (count >= 1e15) return fmt::format("{:.1e}", count);
  if (count >= 1e9) return fmt::format("{:.2f} G", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.2f} M", count / 1e6);
  if (count >= 1e3) return fmt::format("{:.1f} k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

std::string short_time(double seconds) {
  if (std::isnan(seconds) || seconds < 0) return "?";
  if (seconds >= kLongTime) return "more than a year";
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 48 * 3600) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {} h", whole / 86400, whole % 86400 / 3600);
}

std::optional<double> seconds_left(int64_t rows, int64_t total, double rows_per_second) {
  if (rows < 0 || total <= rows || !(rows_per_second > 0)) return std::nullopt;
  double seconds = static_cast<double>(total - rows) / rows_per_second;
  // The rate of a run that stands still falls to almost nothing, and gives no estimate.
  if (!(seconds < kLongTime)) return std::nullopt;
  return seconds;
}

std::string summarize(const Json& metrics, size_t max_length) {
  std::string text;
  for (const auto& [name, value] : metrics.items()) {
    std::string shown;
    if (value.is_number_float()) {
      shown = fmt::format("{:.4g}", value.get<double>());
    } else if (value.is_primitive()) {
      shown = value.is_string() ? value.get<std::string>().substr(0, 30) : value.dump();
    } else {
      continue;
    }
    std::string part = fmt::format("{}{} {}", text.empty() ? "" : ", ", name, shown);
    if (text.size() + part.size() > max_length) return text + ", ...";
    text += part;
  }
  return text;
}

Progress::Progress(std::string run_name, int verbose, bool terminal, int num_workers)
    : run_name_(std::move(run_name)),
      verbose_(verbose),
      terminal_(terminal),
      num_workers_(num_workers) {}

Progress::~Progress() {
  Deadline deadline = Deadline::after(kLastWords);
  while (!write_lines(pending_) && !deadline.passed()) std::this_thread::sleep_for(kLater);
}

void Progress::update(const SendProgress& progress) {
  auto now = Clock::now();
  double seconds = std::chrono::duration<double>(now - last_time_).count();
  bool goes_on = progress.dataset == last_.dataset && progress.rows >= last_.rows && seconds > 0;
  if (goes_on && last_.steps > 0) {
    double rate = (static_cast<double>(progress.rows) - static_cast<double>(last_.rows)) *
                  num_workers_ / seconds;
    double wait = (progress.wait_seconds - last_.wait_seconds) / seconds;
    wait = std::isnan(wait) ? 0 : std::clamp(wait, 0.0, 1.0);
    bool first = rows_per_second_ == 0;
    rows_per_second_ += (first ? 1 : kSmoothing) * (rate - rows_per_second_);
    wait_share_ += (first ? 1 : kSmoothing) * (wait - wait_share_);
  }
  last_ = progress;
  last_time_ = now;
  if (!terminal_ && now - last_shown_ < kPlainInterval) return;
  show();
}

void Progress::report(int64_t index, const Json& metrics, const std::string& checkpoint) {
  metrics_ = summarize(metrics);
  bool all = verbose_ >= 3;
  if (verbose_ >= 2 && !checkpoint.empty()) say(fmt::format("{} is committed", checkpoint));
  say(fmt::format("report {}: {}{}", index, all ? to_text(metrics) : metrics_,
                  checkpoint.empty() ? "" : " (" + checkpoint + ")"));
}

void Progress::epoch(bool begins, const std::string& dataset, int64_t epoch, int64_t rows) {
  if (verbose_ < 2) return;
  say(begins ? fmt::format("epoch {} of '{}' begins", epoch, dataset)
             : fmt::format("epoch {} of '{}' ends after {} rows", epoch, dataset, rows));
}

void Progress::say(const std::string& text) {
  if (verbose_ == 0) return;
  pending_ += str("manta: ", label(), text, "\n");
  last_shown_ = Clock::now();
  write();
}

std::string Progress::label() const {
  return ActiveRun::count() > 1 && !run_name_.empty() ? run_name_ + ": " : "";
}

void Progress::write() { write_lines(pending_); }

std::string Progress::line() const {
  std::string text;
  int64_t total = last_.epoch_total;
  auto expected = expected_.find(last_.dataset);
  if (total == 0 && expected != expected_.end()) total = expected->second;
  if (last_.steps > 0) {
    text = fmt::format("epoch {}, step {}", last_.epoch, last_.steps);
    if (total > 0) {
      double share = static_cast<double>(last_.epoch_rows) / static_cast<double>(total);
      text += fmt::format(" ({:.0f}%)", 100 * std::clamp(share, 0.0, 1.0));
    }
  }
  if (rows_per_second_ > 0) {
    text += fmt::format(" | {} rows/s | data wait {:.0f}%", short_count(rows_per_second_),
                        100 * wait_share_);
    if (auto seconds = seconds_left(last_.epoch_rows, total, rows_per_second_))
      text += fmt::format(" | epoch ends in {}", short_time(*seconds));
  }
  // The metrics come last: they may not fit, and are in a line above already.
  if (!metrics_.empty()) text += (text.empty() ? "" : " | ") + metrics_;
  return text;
}

void Progress::show() {
  if (verbose_ == 0) return;
  if (!terminal_) return say(line());
  status_.set(label() + line());
  last_shown_ = Clock::now();
}

}  // namespace manta::train
