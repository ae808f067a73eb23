#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/core/supply_retries_internal.h"

namespace manta {
namespace {

// The output of a command may be long, and goes into a message of one line.
constexpr size_t kMostWhy = 300;

std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() > kMostWhy) text = text.substr(0, kMostWhy) + "...";
  return text;
}

}  // namespace

void SupplyRetries::failed(const std::string& name, const std::string& why, Clock::time_point now) {
  Failing& failing = failing_[name];
  auto pause = kFirstPause * (1 << std::min(failing.times, 10));
  ++failing.times;
  failing.why = why;
  failing.not_before = now + std::min<std::chrono::milliseconds>(pause, kLongestPause);
}

bool SupplyRetries::may_ask(const std::string& name, Clock::time_point now) const {
  auto found = failing_.find(name);
  return found == failing_.end() || now >= found->second.not_before;
}

int SupplyRetries::failures(const std::string& name) const {
  auto found = failing_.find(name);
  return found == failing_.end() ? 0 : found->second.times;
}

bool SupplyRetries::is_worth_telling(const std::string& name) const {
  int times = failures(name);
  return (times & (times - 1)) == 0;
}

std::string SupplyRetries::describe() const {
  std::string text;
  for (const auto& [name, failing] : failing_) {
    text += str(text.empty() ? "" : "; ", name.empty() ? "a new node" : str("'", name, "'"),
                " was asked for ", failing.times, failing.times == 1 ? " time" : " times",
                " and did not come (the last time: ", on_one_line(failing.why), ")");
  }
  if (text.empty()) return "";
  return str(text, "; what did not come is asked for again, at least every ",
             std::chrono::duration_cast<std::chrono::seconds>(kLongestPause).count(), " s");
}

}  // namespace manta
