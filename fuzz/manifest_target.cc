// manifest.json of a checkpoint that holds one file of five bytes.

#include <manta/io/checksum.h>
#include <manta/train/checkpoint.h>

#include "target.h"

namespace manta::fuzz::manifest {

void run(std::string_view input) {
  scratch_file("data", "12345");
  scratch_file("manifest.json", input);
  auto checkpoint = Checkpoint::from_directory(scratch_folder());
  checkpoint.metrics();
  for (const auto& name : checkpoint.files()) checkpoint.file(name);
}

}  // namespace manta::fuzz::manifest
