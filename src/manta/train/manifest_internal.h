#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "manta/base/json.h"
#include "manta/train/checkpoint.h"

namespace manta::train {

/// Attempts and reports are counted from 0; a run never writes larger numbers than these.
inline constexpr int kMostAttempts = 1'000'000'000;
inline constexpr int64_t kMostReports = 1'000'000'000'000;
inline constexpr int kMostWorkers = 10'000;
inline constexpr double kMostSeconds = 1e15;  // since 1970

/// Writes <checkpoint>/manifest.json: `manifest` with its version and a checksum of its own. Throws
/// Error(kInvalidArgument) if it is larger than read_manifest takes; Error(kIo).
void write_manifest(const std::string& checkpoint, Json manifest);

/// A manifest for a checkpoint that no run has made: with these files, and report 0.
Json manifest_of(const std::vector<CheckpointFile>& files);
/// The largest manifest that is read.
inline constexpr size_t kMostManifestBytes = size_t{64} << 20;

/// The manifest, with every field checked: `report`, `attempt` and `world_size` are in their
/// ranges, `time` is a number, `metrics` and `positions` are objects or null, and the `files` have
/// names that stay in the folder, each once, sizes and checksums. Throws Error(kNotFound) if there
/// is no manifest, Error(kCorrupt) naming the field. It reads manifests of version 1, which had no
/// checksum, too.
Json read_manifest(const std::string& checkpoint);
/// The same for a text; `document` is its name in messages. Throws Error(kCorrupt).
Json parse_manifest(std::string_view text, const std::string& document);

/// The file of a checkpoint that lists the others.
inline constexpr const char* kManifestFile = "manifest.json";

}  // namespace manta::train
