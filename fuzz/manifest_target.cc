// manifest.json of a checkpoint that holds one file of five bytes. Version 1 has no checksum of its
// own, which would keep mutations out.

#include <manta/io/checksum_internal.h>
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

std::vector<std::string> seeds() {
  CheckpointFolder folder(scratch_folder() + "/written");
  folder.write("data", "12345");
  return {
      Json{{"version", 1},
           {"report", 3},
           {"attempt", 0},
           {"world_size", 2},
           {"time", 1.5},
           {"metrics", {{"loss", 0.5}}},
           {"positions", Json::object()},
           {"files", {{{"name", "data"}, {"size", 5}, {"checksum", folder.files()[0].checksum}}}}}
          .dump()};
}

}  // namespace manta::fuzz::manifest
