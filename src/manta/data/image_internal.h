#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace manta::data {

/// Pixels, row after row, with one byte for each channel.
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int channels = 0;
  std::vector<uint8_t> pixels;
};

enum class ImageMode { kGray = 1, kRgb = 3, kRgba = 4 };  ///< The value is the number of channels.
/// "L", "RGB" or "RGBA". Throws Error(kInvalidArgument).
ImageMode image_mode(const std::string& name);
const char* image_mode_name(ImageMode mode);

/// An image may have at most this many pixels, and may be at most this high and wide. A file of a
/// few bytes can claim to have more.
inline constexpr int64_t kMostPixels = 64 << 20;
inline constexpr int64_t kMostImageSide = 65'000;

/// The pixels of a PNG or JPEG file. The bytes may come from an untrusted source. Colours become
/// grey by the weights of ITU-R 601; alpha is dropped or added (opaque); samples of 16 bits keep
/// their upper 8; CMYK becomes RGB; profiles and orientation tags are ignored. All of this is as in
/// Pillow, except grey of 16 bits, which Pillow clips, and the transparent colour of PNG files of
/// 2, 4 or 16 bits, which Pillow misses. Throws Error(kCorrupt) for a file that is damaged or cut
/// off, Error(kInvalidArgument) for one of another format or with more than kMostPixels.
Image decode_image(std::string_view bytes, ImageMode mode);
/// Only the height and width, read from the beginning of the file.
Image decode_image_size(std::string_view bytes);

/// Resizes with Pillow's bicubic filter, which averages when it makes images smaller. The result
/// has the same bytes as that of Pillow's `resize`.
Image resize_image(const Image& image, int64_t height, int64_t width);

}  // namespace manta::data
