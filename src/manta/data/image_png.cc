#include <png.h>

#include <cstdio>
#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/data/image_formats_internal.h"

namespace manta::data {
namespace {

constexpr size_t kLongestReason = 200;

struct PngState {
  std::string_view rest;
  char reason[kLongestReason] = {};
};

void png_fails(png_structp png, png_const_charp message) {
  auto* state = static_cast<PngState*>(png_get_error_ptr(png));
  std::snprintf(state->reason, sizeof(state->reason), "%s", message);
  png_longjmp(png, 1);
}

void png_warns(png_structp, png_const_charp) {}

void png_reads(png_structp png, png_bytep to, size_t size) {
  auto* state = static_cast<PngState*>(png_get_io_ptr(png));
  if (size > state->rest.size()) png_error(png, "it is cut off");
  std::memcpy(to, state->rest.data(), size);
  state->rest.remove_prefix(size);
}

/// Frees the library's structures.
struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  explicit PngReader(PngState& state) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state, png_fails, png_warns);
    if (png) info = png_create_info_struct(png);
    if (!png || !info) {
      if (png) png_destroy_read_struct(&png, nullptr, nullptr);
      throw Error(ErrorKind::kResources, "there is no memory for a PNG reader");
    }
  }
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
};

// Reads up to the first pixels. False if it fails, with the reason in `state`.
bool png_begin(PngReader& reader, PngState& state) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_set_read_fn(reader.png, &state, png_reads);
  png_set_user_limits(reader.png, static_cast<png_uint_32>(kMostImageSide),
                      static_cast<png_uint_32>(kMostImageSide));
  png_set_chunk_cache_max(reader.png, 1000);
  png_set_chunk_malloc_max(reader.png, 8 << 20);
  png_read_info(reader.png, reader.info);
  return true;
}

// Converts pixels to the mode's channels, except to grey, which is made from colours later, and
// except for palette indices. Returns the number of channels.
bool png_transform(PngReader& reader, ImageMode mode, int* channels) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  int type = png_get_color_type(reader.png, reader.info);
  if (type == PNG_COLOR_TYPE_PALETTE) {
    png_set_packing(reader.png);
  } else {
    png_set_expand(reader.png);
    png_set_strip_16(reader.png);
    bool grey = !(type & PNG_COLOR_MASK_COLOR);
    if (mode != ImageMode::kGray && grey) png_set_gray_to_rgb(reader.png);
    if (mode == ImageMode::kRgba) {
      png_set_add_alpha(reader.png, 0xff, PNG_FILLER_AFTER);
    } else {
      png_set_strip_alpha(reader.png);
    }
  }
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  *channels = png_get_channels(reader.png, reader.info);
  return true;
}

bool png_pixels(PngReader& reader, uint8_t** rows) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_read_image(reader.png, rows);
  png_read_end(reader.png, nullptr);
  return true;
}

// libpng would turn colours that the palette does not have black.
Image with_colours(const PngReader& reader, const Image& numbers, ImageMode mode) {
  png_colorp colours = nullptr;
  png_bytep alphas = nullptr;
  int colour_count = 0;
  int alpha_count = 0;
  png_get_PLTE(reader.png, reader.info, &colours, &colour_count);
  png_get_tRNS(reader.png, reader.info, &alphas, &alpha_count, nullptr);
  int channels = mode == ImageMode::kRgba ? 4 : 3;
  Image image{numbers.height, numbers.width, channels, {}};
  image.pixels.resize(numbers.pixels.size() * static_cast<size_t>(channels));
  uint8_t* to = image.pixels.data();
  for (uint8_t number : numbers.pixels) {
    if (number >= colour_count) {
      throw_damaged_image("PNG", str("a pixel has colour ", int{number}, ", and the palette ",
                                     colour_count, " colours")
                                     .c_str());
    }
    to[0] = colours[number].red;
    to[1] = colours[number].green;
    to[2] = colours[number].blue;
    if (channels == 4) to[3] = number < alpha_count ? alphas[number] : 0xff;
    to += channels;
  }
  return image;
}

}  // namespace

Image decode_png(std::string_view bytes, ImageMode mode, bool size_only) {
  PngState state{bytes};
  PngReader reader(state);
  auto require = [&](bool good) {
    if (!good) throw_damaged_image("PNG", state.reason);
  };
  require(png_begin(reader, state));
  Image image;
  image.height = png_get_image_height(reader.png, reader.info);
  image.width = png_get_image_width(reader.png, reader.info);
  check_image_size(image.height, image.width);
  if (size_only) return image;
  require(png_transform(reader, mode, &image.channels));
  size_t row_bytes = static_cast<size_t>(image.width) * static_cast<size_t>(image.channels);
  MANTA_CHECK(png_get_rowbytes(reader.png, reader.info) == row_bytes, "a PNG row of other size");
  image.pixels.resize(row_bytes * static_cast<size_t>(image.height));
  std::vector<uint8_t*> rows;
  for (int64_t y = 0; y < image.height; ++y) {
    rows.push_back(image.pixels.data() + static_cast<size_t>(y) * row_bytes);
  }
  require(png_pixels(reader, rows.data()));
  bool palette = png_get_color_type(reader.png, reader.info) == PNG_COLOR_TYPE_PALETTE;
  return palette ? with_colours(reader, image, mode) : image;
}

}  // namespace manta::data
