#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/train/checkpoint.h"

/// Transfer of checkpoint files between the driver and a process on a node that does not see the
/// driver's folder: in parts, over the connection that the process has to the driver anyway.
namespace manta::train {

/// How many parts a process may have sent that the driver has not taken yet. So the driver's memory
/// holds at most this many for each process.
inline constexpr int kMostChunksInFlight = 8;

struct SendChunk {  ///< To the driver: a part of a file of report `index`'s checkpoint.
  int64_t index = 0;
  std::string name;
  uint64_t offset = 0;
  std::string bytes;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(index, name, offset, bytes);
  }
};
struct ChunkTaken {  ///< The answer: the part is on the driver's disk.
  template <class Archive>
  void serialize(Archive&) {}
};
struct WantChunk {  ///< A part of a file of the checkpoint that the process goes on from.
  std::string name;
  uint64_t offset = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, offset);
  }
};
struct FileChunk {  ///< The answer.
  std::string bytes;
  bool last = false;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(bytes, last);
  }
};

// ---- In the driver, on a thread that may wait for its disk.

/// Appends a part to its file in `folder`; the first one makes the file. Throws
/// Error(kInvalidArgument) for a name that leaves the folder, Error(kCorrupt) if it is not the next
/// part, Error(kIo).
void write_chunk(const std::string& folder, const SendChunk& chunk);
/// Throws Error(kNotFound) if there is no such file, Error(kCorrupt) if it ends before the part
/// does, Error(kIo).
FileChunk read_chunk(const std::string& folder, const WantChunk& wanted);

// ---- In the process.

/// Gives `send` the files, part by part. An empty file is one empty part.
void send_files(int64_t index, const CheckpointFolder& files,
                const std::function<void(SendChunk)>& send);
/// All files of a checkpoint, including its manifest.
std::vector<std::string> files_to_fetch(const Checkpoint& checkpoint);
/// Writes the files into a folder that has none of them. `ask` fetches each part.
void fetch_files(const std::string& folder, const std::vector<std::string>& names,
                 const std::function<FileChunk(const WantChunk&)>& ask);

}  // namespace manta::train
