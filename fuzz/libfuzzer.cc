// The program of one target for libFuzzer; MANTA_FUZZ_TARGET is its name.
//   fuzz_<name> --write-seeds <folder>     writes the target's seeds and ends
//   fuzz_<name> [libFuzzer's options] [corpus folders]

#include <cstring>
#include <fstream>
#include <iostream>

#include "target.h"

namespace {

const manta::fuzz::Target& target() {
  for (const auto& each : manta::fuzz::targets()) {
    if (std::strcmp(each.name, MANTA_FUZZ_TARGET) == 0) return each;
  }
  std::cerr << "there is no target " << MANTA_FUZZ_TARGET << std::endl;
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc == 3 && std::strcmp((*argv)[1], "--write-seeds") == 0) {
    int number = 0;
    for (const auto& seed : target().seeds()) {
      std::ofstream((*argv)[2] + std::string("/seed-") + std::to_string(number++), std::ios::binary)
          << seed;
    }
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto& chosen = target();
  manta::fuzz::try_input(chosen, {reinterpret_cast<const char*>(data), size});
  return 0;
}
