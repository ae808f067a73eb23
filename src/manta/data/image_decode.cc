#include "manta/base/error_internal.h"
#include "manta/data/image_formats_internal.h"

namespace manta::data {
namespace {

constexpr std::string_view kPngMagic = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kJpegMagic = "\xff\xd8\xff";

// As Pillow weighs them.
uint8_t grey_of(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

Image with_channels(Image image, int channels) {
  if (image.channels == channels) return image;
  Image result{image.height, image.width, channels, {}};
  auto pixels = static_cast<size_t>(image.height * image.width);
  result.pixels.resize(pixels * static_cast<size_t>(channels));
  const uint8_t* from = image.pixels.data();
  uint8_t* to = result.pixels.data();
  for (size_t i = 0; i < pixels; ++i, from += image.channels, to += channels) {
    if (channels == 1) {
      to[0] = grey_of(from);
      continue;
    }
    bool grey = image.channels == 1;
    to[0] = from[0];
    to[1] = grey ? from[0] : from[1];
    to[2] = grey ? from[0] : from[2];
    if (channels == 4) to[3] = 0xff;
  }
  return result;
}

Image decode(std::string_view bytes, ImageMode mode, bool size_only) {
  if (bytes.starts_with(kPngMagic)) {
    return with_channels(decode_png(bytes, mode, size_only),
                         size_only ? 0 : static_cast<int>(mode));
  }
  if (bytes.starts_with(kJpegMagic)) {
    return with_channels(decode_jpeg(bytes, size_only), size_only ? 0 : static_cast<int>(mode));
  }
  throw Error(ErrorKind::kInvalidArgument, str(bytes.empty() ? "it is empty, and so " : "it is ",
                                               "no PNG or JPEG file; convert it, or leave it out"));
}

}  // namespace

void throw_damaged_image(const char* format, const char* reason) {
  throw Error(ErrorKind::kCorrupt, str("it is a damaged ", format, " file: ", reason));
}

void check_image_size(int64_t height, int64_t width) {
  if (height < 1 || width < 1) throw Error(ErrorKind::kCorrupt, "it has no pixels");
  if (height <= kMostImageSide && width <= kMostImageSide && height * width <= kMostPixels) return;
  throw Error(ErrorKind::kInvalidArgument,
              str("it has ", height, " x ", width, " pixels; at most ", kMostPixels, " are read"));
}

Image decode_image(std::string_view bytes, ImageMode mode) { return decode(bytes, mode, false); }
Image decode_image_size(std::string_view bytes) { return decode(bytes, ImageMode::kRgb, true); }

ImageMode image_mode(const std::string& name) {
  for (ImageMode mode : {ImageMode::kGray, ImageMode::kRgb, ImageMode::kRgba}) {
    if (name == image_mode_name(mode)) return mode;
  }
  throw Error(ErrorKind::kInvalidArgument, str("there is no mode '", name,
                                               "' of images; there are \"L\" (grey), \"RGB\" and "
                                               "\"RGBA\""));
}

const char* image_mode_name(ImageMode mode) {
  if (mode == ImageMode::kGray) return "L";
  return mode == ImageMode::kRgb ? "RGB" : "RGBA";
}

}  // namespace manta::data
