#pragma once

#include <string_view>

#include "manta/data/image_internal.h"

namespace manta::data {

// What reads a PNG or a JPEG file, each with its library. Both libraries leave by longjmp: between
// setjmp and the end of such a function nothing with a destructor may be made.

/// Grey, or of the mode's channels.
Image decode_png(std::string_view bytes, ImageMode mode, bool size_only);
/// Grey, or red, green and blue.
Image decode_jpeg(std::string_view bytes, bool size_only);

/// Throws Error(kCorrupt): "it is a damaged JPEG file: it is cut off".
[[noreturn]] void throw_damaged_image(const char* format, const char* reason);
/// Throws if a file says that it has no pixels, or more than are read.
void check_image_size(int64_t height, int64_t width);

}  // namespace manta::data
