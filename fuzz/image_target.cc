// A PNG or JPEG file.

#include <manta/base/error_internal.h>
#include <manta/data/image_internal.h>

#include "target.h"

namespace manta::fuzz::image {

void run(std::string_view input) {
  data::Image size = data::decode_image_size(input);
  // Large ones are only slow.
  if (size.height * size.width > 1 << 16) return;
  for (auto mode : {data::ImageMode::kGray, data::ImageMode::kRgb, data::ImageMode::kRgba}) {
    data::Image image = data::decode_image(input, mode);
    MANTA_CHECK(
        image.height == size.height && image.width == size.width &&
            std::ssize(image.pixels) == image.height * image.width * static_cast<int64_t>(mode),
        "an image of another size than its file says");
    data::resize_image(image, 3, 5);
  }
}

std::vector<std::string> seeds() {
  // One pixel; larger ones are in the corpus.
  using namespace std::string_literals;
  return {
      "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\b\2\0\0\0\x90wS\xde\0\0\0\fIDATx\x9c"
      "c\xf8\xff\x9f\1\0\4\xff\1\xff]}\2\x87\0\0\0\0IEND\xae"
      "B`\x82"s};
}

}  // namespace manta::fuzz::image
