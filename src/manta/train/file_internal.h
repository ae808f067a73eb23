#pragma once

#include <cstddef>
#include <string>

#include "manta/base/json.h"

namespace manta::train {

/// All of `data`, however many calls it takes. Throws Error(kIo) naming `path`.
void write_all(int fd, const void* data, size_t size, const std::string& path);

/// The whole file. Throws Error(kIo) naming it; Error(kNotFound) if it is not there.
std::string read_text(const std::string& path);

/// Replaces the file in one step: a reader sees the old or the new text, never a part. (Written
/// beside it as `path`.new, then renamed; no fsync.) Throws Error(kIo) and leaves the old one.
void replace_file(const std::string& path, const std::string& text);

/// JSON for a file: NaN becomes null and bytes that are not UTF-8 are replaced, instead of throwing
/// from a place that the user has never heard of. `indent` as Json::dump.
std::string to_text(const Json& json, int indent = -1);

}  // namespace manta::train
