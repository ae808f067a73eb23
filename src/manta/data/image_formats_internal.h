#pragma once

#include <string_view>

#include "manta/data/image_internal.h"

namespace manta::data {

// Functions that read PNG and JPEG files, each with its library. Both libraries report errors by
// longjmp: between setjmp and the end of such a function, no object with a destructor may be made.

/// The image is grey, or has the mode's channels.
Image decode_png(std::string_view bytes, ImageMode mode, bool size_only);
/// The image is grey, or red, green and blue.
Image decode_jpeg(std::string_view bytes, bool size_only);

/// Throws Error(kCorrupt): "it is a damaged JPEG file: it is cut off".
[[noreturn]] void throw_damaged_image(const char* format, const char* reason);
/// Throws if a file says that it has no pixels, or more than are read.
void check_image_size(int64_t height, int64_t width);

}  // namespace manta::data
