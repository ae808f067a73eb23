#include "tree_pss.h"

#include <dirent.h>
#include <unistd.h>

#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace {

double pss_mb(const std::string& pid) {
  std::ifstream in("/proc/" + pid + "/smaps_rollup");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("Pss:", 0) == 0) return std::stod(line.substr(4)) * 1024 / 1e6;
  }
  return 0;
}

}  // namespace

double tree_pss_mb() {
  std::multimap<std::string, std::string> children;
  DIR* proc = ::opendir("/proc");
  while (auto* entry = ::readdir(proc)) {
    if (!std::isdigit(static_cast<unsigned char>(entry->d_name[0]))) continue;
    std::ifstream in(std::string("/proc/") + entry->d_name + "/stat");
    std::string text((std::istreambuf_iterator<char>(in)), {});
    size_t end = text.rfind(')');
    if (end == std::string::npos) continue;
    text = text.substr(end + 4);
    children.emplace(text.substr(0, text.find(' ')), entry->d_name);
  }
  ::closedir(proc);
  std::vector<std::string> tree{std::to_string(::getpid())};
  double sum = 0;
  for (size_t i = 0; i < tree.size(); ++i) {
    sum += pss_mb(tree[i]);
    auto [begin, end] = children.equal_range(tree[i]);
    for (auto it = begin; it != end; ++it) tree.push_back(it->second);
  }
  return sum;
}
