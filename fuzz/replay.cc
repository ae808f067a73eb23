// Runs a target on its seeds, on the corpus, and on mutations of them, without libFuzzer, so that
// every build can: the same inputs each time.
//   fuzz_replay <target> <corpus folder> <mutations>
// The current input is in a file whose name is printed first. The file is removed at the end; a
// crash leaves it.

#include <manta/base/error_internal.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>

#include "target.h"

namespace {

using manta::fuzz::Target;

std::vector<std::string> read_corpus(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry);
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return inputs;
}

/// A few edits, of the kinds that break readers: flipped bits, numbers at their limits, parts that
/// are missing, doubled, or of another input.
class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& inputs) : inputs_(inputs) {}

  std::string next() {
    std::string text = inputs_[below(inputs_.size())];
    for (size_t edits = 1 + below(4); edits > 0; --edits) edit(text);
    return text;
  }

 private:
  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void edit(std::string& text) {
    size_t at = below(text.size());
    switch (below(7)) {
      case 0:
        if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        if (!text.empty()) text[at] = static_cast<char>(below(256));
        break;
      case 2:
        text.resize(at);
        break;
      case 3:
        text.erase(at, 1 + below(16));
        break;
      case 4:
        text.insert(at, text.substr(at, 1 + below(32)));
        break;
      case 5: {
        const std::string& other = inputs_[below(inputs_.size())];
        text.insert(at, other, below(other.size()), 1 + below(32));
        break;
      }
      case 6:
        insert_limit(text, at);
        break;
    }
  }

  void insert_limit(std::string& text, size_t at) {
    static const std::vector<std::string> kLimits = {"-1",
                                                     "0",
                                                     "9223372036854775807",
                                                     "-9223372036854775808",
                                                     "18446744073709551615",
                                                     "1e308",
                                                     "null",
                                                     "[[[[[[[[",
                                                     "{\"a\":",
                                                     "\"\"",
                                                     "true",
                                                     "../../x",
                                                     std::string(8, '\0'),
                                                     std::string(8, '\xff'),
                                                     std::string("\0\0\0\0\0\0\0\x80", 8)};
    const std::string& limit = kLimits[below(kLimits.size())];
    text.replace(at, std::min(limit.size(), text.size() - at), limit);
  }

  const std::vector<std::string>& inputs_;
  std::mt19937_64 random_{1};
};

// The number in the text; -1 if there is none.
int64_t number_of(const char* text) {
  int64_t number = -1;
  auto [end, error] = std::from_chars(text, text + std::strlen(text), number);
  return error == std::errc() && *end == '\0' && number >= 0 ? number : -1;
}

}  // namespace

int main(int argc, char** argv) {
  int64_t mutations = argc == 4 ? number_of(argv[3]) : -1;
  if (mutations < 0) {
    bool help = argc == 2 && std::strcmp(argv[1], "--help") == 0;
    (help ? std::cout : std::cerr)
        << "usage: fuzz_replay <target> <corpus folder> <mutations>" << std::endl;
    return help ? 0 : 2;
  }
  for (const Target& target : manta::fuzz::targets()) {
    if (std::strcmp(target.name, argv[1]) != 0) continue;
    auto inputs = target.seeds();
    if (inputs.empty()) inputs.emplace_back();
    for (const auto& seed : inputs) target.run(seed);  // throws if it is not accepted
    for (auto& each : read_corpus(argv[2])) inputs.push_back(std::move(each));
    for (const auto& input : inputs) manta::fuzz::try_input(target, input);
    Mutator mutator(inputs);
    std::string kept = manta::fuzz::scratch_folder() + "/input";
    std::cout << target.name << ": a crash leaves its input in " << kept << std::endl;
    for (int64_t left = mutations; left > 0; --left) {
      std::string input = mutator.next();
      std::ofstream(kept, std::ios::binary | std::ios::trunc) << input;
      manta::fuzz::try_input(target, input);
    }
    std::cout << target.name << ": " << inputs.size() << " inputs and " << mutations
              << " mutations of them were read or refused" << std::endl;
    return 0;
  }
  std::cerr << "there is no target '" << argv[1] << "'" << std::endl;
  return 2;
}
