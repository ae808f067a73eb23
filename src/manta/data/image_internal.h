#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace manta::data {

/// Pixels, row after row, of one byte for each channel.
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

/// An image has at most so many pixels, and is at most so high and wide. Files of a few bytes can
/// say that they have more.
inline constexpr int64_t kMostPixels = 64 << 20;
inline constexpr int64_t kMostImageSide = 65'000;

/// The pixels of a PNG or JPEG file. Takes bytes from anywhere. Colours become grey by the weights
/// of ITU-R 601; alpha is dropped or added (opaque); of samples of 16 bits the upper 8 are taken;
/// CMYK becomes RGB; profiles and orientation tags are not looked at: all as in Pillow, but for
/// grey of 16 bits, which Pillow clips, and the transparent colour of PNG files of 2, 4 or 16 bits,
/// which it misses. Throws Error(kCorrupt) for a file that is damaged or cut off,
/// Error(kInvalidArgument) for one of another format or with more than kMostPixels.
Image decode_image(std::string_view bytes, ImageMode mode);
/// Height and width only, from its beginning.
Image decode_image_size(std::string_view bytes);

/// To another size, by Pillow's bicubic filter, which averages when it makes images smaller: the
/// same bytes as its `resize`.
Image resize_image(const Image& image, int64_t height, int64_t width);

}  // namespace manta::data
