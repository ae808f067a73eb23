#pragma once

#include <cstring>
#include <iostream>
#include <optional>

/// The value that main should return at once; nothing if there are `least` to `most` arguments, and
/// the first is not an option. Otherwise it prints the usage; asking for it with --help is not an
/// error. Call it after manta::init, which does not return in workers.
inline std::optional<int> usage(int argc, char** argv, const char* text, int least, int most) {
  int given = argc - 1;
  bool option = given > 0 && std::strncmp(argv[1], "-", 1) == 0;
  if (given >= least && given <= most && !option) return std::nullopt;
  bool help = given == 1 && std::strcmp(argv[1], "--help") == 0;
  (help ? std::cout : std::cerr) << "usage: " << text << std::endl;
  return help ? 0 : 2;
}
