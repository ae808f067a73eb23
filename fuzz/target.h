#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Fuzz targets: each hands bytes of unknown origin to one of our readers.
///
/// A target is a file `<name>_target.cc` that defines, in namespace manta::fuzz::<name>,
///   void run(std::string_view input);     // manta::Error may leave it, nothing else
///   std::vector<std::string> seeds();     // a few inputs that the reader accepts
/// CMakeLists.txt finds it, builds libFuzzer's program `fuzz_<name>` (preset `fuzz`), and a test
/// that replays the seeds, the corpus in corpus/<name>/ and mutations of both.
namespace manta::fuzz {

struct Target {
  const char* name;
  void (*run)(std::string_view input);
  std::vector<std::string> (*seeds)();
};

/// All of them; written by CMake.
const std::vector<Target>& targets();

/// Runs it on one input. Ends the process if anything but manta::Error is thrown.
void try_input(const Target& target, std::string_view input);

/// A path that only this process uses, on a file system in memory if there is one, for readers of
/// files. The folder is removed at the end of the process.
const std::string& scratch_folder();
/// Writes a file there and returns its path. Throws manta::Error if it cannot.
std::string scratch_file(const std::string& name, std::string_view content);

}  // namespace manta::fuzz
