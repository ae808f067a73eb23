#include <map>

#include "manta/base/error_internal.h"
#include "manta/core/repeated_lines_internal.h"

namespace manta {
namespace {

constexpr size_t kMaxLength = 4096;   // of a line that is remembered,
constexpr size_t kMaxTexts = 10'000;  // number of remembered texts

}  // namespace

bool RepeatedLines::is_new(const std::string& worker, std::string_view line,
                           Clock::time_point now) {
  if (line.size() > kMaxLength || line.find_first_not_of(" \t\r") == std::string_view::npos) {
    return true;
  }
  auto found = texts_.find(std::string(line));
  if (found == texts_.end()) {
    if (texts_.size() < kMaxTexts) {
      Text& text = texts_[std::string(line)];
      text.first = worker;
      text.until = now + kWindow;
      text.order = next_order_++;
    }
    return true;
  }
  Text& text = found->second;
  if (worker == text.first && text.shown < kFromOne) {
    ++text.shown;
    return true;
  }
  ++text.hidden;
  text.latest = worker;
  text.by_others = text.by_others || worker != text.first;
  return false;
}

std::string RepeatedLines::take_counts(Clock::time_point now, bool last) {
  std::map<uint64_t, std::string> counts;
  for (auto it = texts_.begin(); it != texts_.end();) {
    Text& text = it->second;
    if (now < text.until && !last) {
      ++it;
      continue;
    }
    if (text.hidden == 0) {
      it = texts_.erase(it);
      continue;
    }
    counts[text.order] = str("(", text.latest, ") ", it->first, " [repeated ", text.hidden, "x",
                             text.by_others ? " across workers]\n" : "]\n");
    // The text is likely to go on: the next thing to show is the next count.
    text.shown = kFromOne;
    text.hidden = 0;
    text.by_others = false;
    text.until = now + kWindow;
    ++it;
  }
  std::string lines;
  for (const auto& [order, line] : counts) lines += line;
  return lines;
}

}  // namespace manta
