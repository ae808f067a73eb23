#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>

// Behind what it needs.
#include <jpeglib.h>
#include <png.h>
// Behind what it needs.
#include <jerror.h>

#include "manta/base/error_internal.h"
#include "manta/data/image_internal.h"

namespace manta::data {
namespace {

constexpr std::string_view kPngMagic = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kJpegMagic = "\xff\xd8\xff";
// A progressive file of a few kilobytes can have thousands of passes over all of its pixels.
constexpr int kMostScans = 200;
constexpr size_t kLongestReason = 200;

[[noreturn]] void throw_damaged_image(const char* format, const char* reason) {
  throw Error(ErrorKind::kCorrupt, str("it is a damaged ", format, " file: ", reason));
}

void check_size(int64_t height, int64_t width) {
  if (height < 1 || width < 1) throw Error(ErrorKind::kCorrupt, "it has no pixels");
  if (height <= kMostImageSide && width <= kMostImageSide && height * width <= kMostPixels) return;
  throw Error(ErrorKind::kInvalidArgument,
              str("it has ", height, " x ", width, " pixels; at most ", kMostPixels, " are read"));
}

// ---- Both libraries leave by longjmp: between setjmp and the end of such a function nothing with
// a destructor may be made.

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

/// Ends the library's structures.
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

// Up to the first pixels. False if it fails, with the reason in `state`.
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

// As the mode's channels, but for grey, which is made of colours later. Returns how many there are.
bool png_transform(PngReader& reader, ImageMode mode, int* channels) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_set_expand(reader.png);
  png_set_scale_16(reader.png);
  int type = png_get_color_type(reader.png, reader.info);
  bool grey = !(type & PNG_COLOR_MASK_COLOR);
  if (mode != ImageMode::kGray && grey) png_set_gray_to_rgb(reader.png);
  if (mode == ImageMode::kRgba) {
    png_set_add_alpha(reader.png, 0xff, PNG_FILLER_AFTER);
  } else {
    png_set_strip_alpha(reader.png);
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
  check_size(image.height, image.width);
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
  return image;
}

struct JpegState {
  jpeg_error_mgr errors = {};  // first: the library gives a pointer to it
  std::jmp_buf failed = {};
  char reason[JMSG_LENGTH_MAX] = {};
  bool cut_off = false;
};

void jpeg_fails(j_common_ptr common) {
  auto* state = reinterpret_cast<JpegState*>(common->err);
  state->errors.format_message(common, state->reason);
  std::longjmp(state->failed, 1);
}

// It fills in what is missing, with a warning. Other warnings are of files that viewers show.
void jpeg_warns(j_common_ptr common, int level) {
  auto* state = reinterpret_cast<JpegState*>(common->err);
  if (level < 0 &&
      (state->errors.msg_code == JWRN_JPEG_EOF || state->errors.msg_code == JWRN_HIT_MARKER)) {
    state->cut_off = true;
  }
}

void jpeg_prints(j_common_ptr) {}

struct JpegReader {
  jpeg_decompress_struct jpeg = {};
  jpeg_progress_mgr progress = {};
  JpegReader() = default;
  ~JpegReader() { jpeg_destroy_decompress(&jpeg); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
};

void jpeg_watches(j_common_ptr common) {
  if (!common->is_decompressor) return;
  if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number <= kMostScans) return;
  auto* state = reinterpret_cast<JpegState*>(common->err);
  std::snprintf(state->reason, sizeof(state->reason), "it has more than %d passes", kMostScans);
  std::longjmp(state->failed, 1);
}

bool jpeg_begin(JpegReader& reader, JpegState& state, std::string_view bytes) {
  reader.jpeg.err = jpeg_std_error(&state.errors);
  state.errors.error_exit = jpeg_fails;
  state.errors.emit_message = jpeg_warns;
  state.errors.output_message = jpeg_prints;
  if (setjmp(state.failed)) return false;
  jpeg_create_decompress(&reader.jpeg);
  reader.progress.progress_monitor = jpeg_watches;
  reader.jpeg.progress = &reader.progress;
  jpeg_mem_src(&reader.jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&reader.jpeg, TRUE);
  return true;
}

bool jpeg_pixels(JpegReader& reader, JpegState& state, uint8_t* pixels, size_t row_bytes) {
  if (setjmp(state.failed)) return false;
  jpeg_start_decompress(&reader.jpeg);
  while (reader.jpeg.output_scanline < reader.jpeg.output_height) {
    uint8_t* row = pixels + reader.jpeg.output_scanline * row_bytes;
    jpeg_read_scanlines(&reader.jpeg, &row, 1);
  }
  jpeg_finish_decompress(&reader.jpeg);
  return true;
}

Image decode_jpeg(std::string_view bytes, bool size_only) {
  JpegState state;
  JpegReader reader;
  if (!jpeg_begin(reader, state, bytes)) throw_damaged_image("JPEG", state.reason);
  Image image;
  image.height = reader.jpeg.image_height;
  image.width = reader.jpeg.image_width;
  check_size(image.height, image.width);
  if (size_only) return image;
  auto space = reader.jpeg.jpeg_color_space;
  if (space == JCS_CMYK || space == JCS_YCCK || space == JCS_UNKNOWN) {
    throw Error(ErrorKind::kInvalidArgument, "its colours are CMYK or unknown; convert it to RGB");
  }
  bool grey = space == JCS_GRAYSCALE;
  reader.jpeg.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
  image.channels = grey ? 1 : 3;
  size_t row_bytes = static_cast<size_t>(image.width) * static_cast<size_t>(image.channels);
  image.pixels.resize(row_bytes * static_cast<size_t>(image.height));
  if (!jpeg_pixels(reader, state, image.pixels.data(), row_bytes)) {
    throw_damaged_image("JPEG", state.reason);
  }
  if (state.cut_off) throw_damaged_image("JPEG", "it is cut off");
  return image;
}

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
  throw Error(ErrorKind::kInvalidArgument,
              "it is no PNG or JPEG file; convert it, or leave it out");
}

}  // namespace

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
