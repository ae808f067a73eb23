#include <algorithm>
#include <charconv>

#include "manta/base/error_internal.h"
#include "manta/base/names_internal.h"
#include "manta/core/host_list_internal.h"

namespace manta {
namespace {

constexpr size_t kMostHosts = 100'000;

class HostListReader {
 public:
  explicit HostListReader(const std::string& list) : list_(list) {}

  std::vector<std::string> read() {
    std::vector<std::string> hosts;
    while (at_ < list_.size()) {
      std::vector<std::string> names{""};
      for (; at_ < list_.size() && list_[at_] != ','; ++at_) {
        if (list_[at_] == '[') {
          names = combine(names, read_ranges());
        } else if (list_[at_] == ']') {
          fail();
        } else {
          for (auto& name : names) name += list_[at_];
        }
      }
      if (names.front().empty()) fail();
      hosts.insert(hosts.end(), names.begin(), names.end());
      if (hosts.size() > kMostHosts) fail();
      ++at_;
    }
    return hosts;
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::kInvalidArgument,
                str("the list of hosts '", list_.substr(0, 200), "' cannot be understood"));
  }

  std::vector<std::string> combine(const std::vector<std::string>& left,
                                   const std::vector<std::string>& right) const {
    if (left.size() * right.size() > kMostHosts) fail();
    std::vector<std::string> all;
    for (const auto& a : left) {
      for (const auto& b : right) all.push_back(a + b);
    }
    return all;
  }

  // From '[' to ']', at which it stops: numbers and ranges of them. If the first number has leading
  // zeros, all numbers have its width.
  std::vector<std::string> read_ranges() {
    size_t end = list_.find(']', at_);
    if (end == std::string::npos) fail();
    std::string inside = list_.substr(at_ + 1, end - at_ - 1) + ",";
    at_ = end;
    std::vector<std::string> numbers;
    for (size_t begin = 0, comma; (comma = inside.find(',', begin)) != std::string::npos;
         begin = comma + 1) {
      std::string range = inside.substr(begin, comma - begin);
      size_t dash = range.find('-');
      std::string low = range.substr(0, dash);
      unsigned long first = number(low);
      unsigned long last = dash == std::string::npos ? first : number(range.substr(dash + 1));
      if (last < first || last - first >= kMostHosts) fail();
      for (unsigned long each = first; each <= last; ++each) {
        std::string digits = std::to_string(each);
        numbers.push_back(std::string(low.size() - std::min(low.size(), digits.size()), '0') +
                          digits);
      }
    }
    return numbers;
  }

  unsigned long number(const std::string& text) const {
    unsigned long value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) fail();
    return value;
  }

  const std::string& list_;
  size_t at_ = 0;
};

}  // namespace

std::vector<std::string> expand_host_list(const std::string& list) {
  return HostListReader(list).read();
}

}  // namespace manta
