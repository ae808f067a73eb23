#include <csetjmp>
#include <cstddef>
#include <cstdio>

// After the headers that it needs.
#include <jpeglib.h>
// After the headers that it needs.
#include <jerror.h>

#include "manta/base/error_internal.h"
#include "manta/data/image_formats_internal.h"

namespace manta::data {
namespace {

// A progressive file of a few kilobytes can have thousands of passes over all of its pixels.
constexpr int kMostScans = 200;

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

// The library fills in missing data, with a warning. Other warnings come from files that viewers
// show.
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

// As Pillow does: inks are inverted, because Adobe writes them so, and profiles are ignored.
Image without_inks(const Image& inks) {
  Image image{inks.height, inks.width, 3, {}};
  image.pixels.resize(inks.pixels.size() / 4 * 3);
  uint8_t* to = image.pixels.data();
  for (size_t i = 0; i < inks.pixels.size(); i += 4) {
    int light = inks.pixels[i + 3];  // 255 - black
    for (size_t c = 0; c < 3; ++c) {
      int product = (255 - inks.pixels[i + c]) * light + 128;
      *to++ = static_cast<uint8_t>(light - (((product >> 8) + product) >> 8));
    }
  }
  return image;
}

}  // namespace

Image decode_jpeg(std::string_view bytes, bool size_only) {
  JpegState state;
  JpegReader reader;
  if (!jpeg_begin(reader, state, bytes)) throw_damaged_image("JPEG", state.reason);
  Image image;
  image.height = reader.jpeg.image_height;
  image.width = reader.jpeg.image_width;
  check_image_size(image.height, image.width);
  if (size_only) return image;
  auto space = reader.jpeg.jpeg_color_space;
  if (space == JCS_UNKNOWN) {
    throw Error(ErrorKind::kInvalidArgument,
                str("its ", reader.jpeg.num_components,
                    " components are no known colours; convert it to RGB"));
  }
  bool inks = space == JCS_CMYK || space == JCS_YCCK;
  bool grey = space == JCS_GRAYSCALE;
  reader.jpeg.out_color_space = inks ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
  image.channels = inks ? 4 : grey ? 1 : 3;
  size_t row_bytes = static_cast<size_t>(image.width) * static_cast<size_t>(image.channels);
  image.pixels.resize(row_bytes * static_cast<size_t>(image.height));
  if (!jpeg_pixels(reader, state, image.pixels.data(), row_bytes)) {
    throw_damaged_image("JPEG", state.reason);
  }
  if (state.cut_off) throw_damaged_image("JPEG", "it is cut off");
  return inks ? without_inks(image) : image;
}

}  // namespace manta::data
