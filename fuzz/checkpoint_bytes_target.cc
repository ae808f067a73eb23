// A checkpoint in one piece. Its manifest is of version 1, which has no checksum of its own, so
// that mutations get further.

#include <manta/train/checkpoint.h>

#include <cstdint>

#include "target.h"

namespace manta::fuzz::checkpoint_bytes {

void run(std::string_view input) {
  Checkpoint checkpoint = Checkpoint::from_bytes(input);
  for (const auto& name : checkpoint.files()) checkpoint.file(name);
  checkpoint.to_dict();
}

std::vector<std::string> seeds() {
  CheckpointDict dict;
  dict.values = {{"epoch", 3}};
  dict.tensors["w"] = {"F32", {1, 2}, "12345678"};
  Checkpoint checkpoint = Checkpoint::from_dict(dict);
  Json manifest = checkpoint.manifest();
  manifest["version"] = 1;
  manifest.erase("checksum");
  std::string text = manifest.dump(), whole = checkpoint.to_bytes();
  size_t begin = whole.find('\n') + 1;
  uint64_t before = 0, length = text.size();
  whole.copy(reinterpret_cast<char*>(&before), sizeof(before), begin);
  whole.replace(begin, sizeof(length) + before,
                std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text);
  return {whole, checkpoint.to_bytes()};
}

}  // namespace manta::fuzz::checkpoint_bytes
