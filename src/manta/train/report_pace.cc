#include <algorithm>

#include "manta/train/report_pace_internal.h"

namespace manta::train {
namespace {

constexpr int kRemembered = 8;  // intervals, about
constexpr int kLooksAReport = 4;
constexpr int kMissedReports = 4;  // after which the thread sleeps until the next report comes

}  // namespace

void ReportPace::add(Clock::time_point now) {
  auto interval = std::min<std::chrono::nanoseconds>(now - last_, 2 * kLongestInterval);
  usual_ += (interval - usual_) / kRemembered;
  last_ = now;
}

std::chrono::microseconds ReportPace::nap(Clock::time_point now) const {
  bool often = usual_ >= kShortestInterval && usual_ <= kLongestInterval;
  if (!often || now - last_ > kMissedReports * usual_) return {};
  auto nap = std::chrono::duration_cast<std::chrono::microseconds>(usual_ / kLooksAReport);
  return std::min(nap, kLongestNap);
}

}  // namespace manta::train
