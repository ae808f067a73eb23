#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_set>

#include "manta/base/error_internal.h"
#include "manta/data/unknown_column_internal.h"

namespace manta::data {
namespace {

constexpr size_t kMostSuggestions = 3;
constexpr size_t kMostListed = 20;
constexpr size_t kLongestCompared = 200;  // a comparison costs the square of the length

std::string in_lower_case(const std::string& text) {
  std::string lower = text;
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// The number of letters to insert, delete, replace or swap with the next one.
size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t k = 1; k <= b.size(); ++k) {
      row[k] = std::min({last[k] + 1, row[k - 1] + 1, last[k - 1] + (a[i - 1] != b[k - 1])});
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1]) {
        row[k] = std::min(row[k], before_last[k - 2] + 1);
      }
    }
    before_last = std::exchange(last, row);
  }
  return last.back();
}

bool one_is_inside(std::string_view a, std::string_view b) {
  if (std::min(a.size(), b.size()) < 3) return false;
  return a.find(b) != std::string_view::npos || b.find(a) != std::string_view::npos;
}

std::string quoted(const std::vector<std::string>& names, const char* separator) {
  std::string list;
  for (const auto& name : names) list += str(list.empty() ? "" : separator, "'", name, "'");
  return list;
}

}  // namespace

std::vector<std::string> near_matches(const std::string& name,
                                      const std::vector<std::string>& there) {
  struct Match {
    size_t edits;
    const std::string* name;
  };
  std::vector<Match> matches;
  std::string wanted = in_lower_case(name);
  size_t most_edits = wanted.size() < 3 ? 0 : (wanted.size() + 2) / 3;
  for (const auto& candidate : there) {
    if (std::max(name.size(), candidate.size()) > kLongestCompared) continue;
    std::string lower = in_lower_case(candidate);
    size_t edits = edits_between(wanted, lower);
    if (edits <= most_edits || one_is_inside(wanted, lower)) {
      matches.push_back({edits, &candidate});
    }
  }
  std::stable_sort(matches.begin(), matches.end(),
                   [](const Match& a, const Match& b) { return a.edits < b.edits; });
  std::vector<std::string> names;
  for (const auto& match : matches) {
    if (names.size() < kMostSuggestions) names.push_back(*match.name);
  }
  return names;
}

std::string no_such_column(const std::string& name, const std::vector<std::string>& there) {
  auto listed =
      std::vector(there.begin(),
                  there.begin() + static_cast<std::ptrdiff_t>(std::min(there.size(), kMostListed)));
  std::string list = listed.empty() ? "none" : quoted(listed, ", ");
  if (there.size() > listed.size()) list += str(" and ", there.size() - listed.size(), " more");
  const char* are = there.size() == 1 ? "is " : "are ";
  auto near = near_matches(name, there);
  if (near.empty()) return str("there is no column '", name, "'; there ", are, list);
  return str("there is no column '", name, "'; did you mean ", quoted(near, " or "), "? There ",
             are, list);
}

void require_distinct(const std::vector<std::string>& names, const std::string& doing) {
  std::unordered_set<std::string_view> seen;
  for (const auto& name : names) {
    if (!seen.insert(name).second) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("in ", doing, ": column '", name, "' is named twice"));
    }
  }
}

}  // namespace manta::data
