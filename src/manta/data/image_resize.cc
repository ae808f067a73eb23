#include <algorithm>
#include <cmath>

#include "manta/data/image_internal.h"

// Pillow's resampling (its Resample.c), number for number: what a model sees must not depend on
// which program made its images smaller.
namespace manta::data {
namespace {

constexpr int kPrecisionBits = 32 - 8 - 2;
constexpr double kFilterSupport = 2.0;

double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

/// Which pixels of the input make one pixel of the output, and with which weights.
struct Weights {
  int64_t first = 0;
  std::vector<int32_t> weights;
};

std::vector<Weights> weights_of(int64_t from, int64_t to) {
  double scale = static_cast<double>(from) / static_cast<double>(to);
  double filter_scale = std::max(scale, 1.0);
  double support = kFilterSupport * filter_scale;
  std::vector<Weights> all;
  for (int64_t i = 0; i < to; ++i) {
    double center = (static_cast<double>(i) + 0.5) * scale;
    auto first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    auto end = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), from);
    std::vector<double> weights;
    double sum = 0;
    for (int64_t x = first; x < end; ++x) {
      double weight = bicubic((static_cast<double>(x) - center + 0.5) * (1.0 / filter_scale));
      weights.push_back(weight);
      sum += weight;
    }
    Weights one{first, {}};
    for (double weight : weights) {
      if (sum != 0.0) weight /= sum;
      one.weights.push_back(
          static_cast<int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << kPrecisionBits)));
    }
    all.push_back(std::move(one));
  }
  return all;
}

uint8_t clipped(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
}

Image resize_width(const Image& image, int64_t width) {
  Image result{image.height, width, image.channels, {}};
  result.pixels.resize(static_cast<size_t>(image.height * width * image.channels));
  auto all = weights_of(image.width, width);
  uint8_t* to = result.pixels.data();
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* row = image.pixels.data() + y * image.width * image.channels;
    for (const auto& one : all) {
      for (int channel = 0; channel < image.channels; ++channel) {
        int32_t sum = 1 << (kPrecisionBits - 1);
        const uint8_t* from = row + one.first * image.channels + channel;
        for (int32_t weight : one.weights) {
          sum += *from * weight;
          from += image.channels;
        }
        *to++ = clipped(sum);
      }
    }
  }
  return result;
}

Image resize_height(const Image& image, int64_t height) {
  int64_t row_bytes = image.width * image.channels;
  Image result{height, image.width, image.channels, {}};
  result.pixels.resize(static_cast<size_t>(height * row_bytes));
  uint8_t* to = result.pixels.data();
  for (const auto& one : weights_of(image.height, height)) {
    const uint8_t* from = image.pixels.data() + one.first * row_bytes;
    for (int64_t x = 0; x < row_bytes; ++x) {
      int32_t sum = 1 << (kPrecisionBits - 1);
      const uint8_t* at = from + x;
      for (int32_t weight : one.weights) {
        sum += *at * weight;
        at += row_bytes;
      }
      *to++ = clipped(sum);
    }
  }
  return result;
}

uint8_t times(int a, int b) {
  int product = a * b + 128;
  return static_cast<uint8_t>(((product >> 8) + product) >> 8);
}

// Transparent pixels have no colour: they must not bleed into their neighbours.
void multiply_by_alpha(Image& image) {
  for (size_t i = 0; i < image.pixels.size(); i += 4) {
    uint8_t* pixel = image.pixels.data() + i;
    for (int c = 0; c < 3; ++c) pixel[c] = times(pixel[c], pixel[3]);
  }
}

void divide_by_alpha(Image& image) {
  for (size_t i = 0; i < image.pixels.size(); i += 4) {
    uint8_t* pixel = image.pixels.data() + i;
    int alpha = pixel[3];
    if (alpha == 255 || alpha == 0) continue;
    for (int c = 0; c < 3; ++c) {
      pixel[c] = static_cast<uint8_t>(std::min(255 * pixel[c] / alpha, 255));
    }
  }
}

}  // namespace

Image resize_image(const Image& image, int64_t height, int64_t width) {
  if (image.height == height && image.width == width) return image;
  Image result = image;
  if (image.channels == 4) multiply_by_alpha(result);
  if (image.width != width) result = resize_width(result, width);
  if (image.height != height) result = resize_height(result, height);
  if (image.channels == 4) divide_by_alpha(result);
  return result;
}

}  // namespace manta::data
