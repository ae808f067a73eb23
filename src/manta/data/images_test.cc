// read_images, against the pixels that Pillow makes.

#include <arrow/api.h>
#include <gmock/gmock.h>

#include "manta/base/error_internal.h"
#include "manta/data/image_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"
#include "manta/data/text_folder_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Json& image_files() {
  static const Json cases = Json::parse(
#include "manta/data/expected/images.inc"
  );
  return cases;
}

// Files of every kind.
const Json& picture_files() {
  static const Json cases = Json::parse(
#include "manta/data/expected/pictures.inc"
  );
  return cases;
}

std::string pixels_of(const Dataset& images) {
  auto values = images.to_table()->column(0)->chunk(0);
  while (values->type_id() == arrow::Type::FIXED_SIZE_LIST) {
    values = static_cast<const arrow::FixedSizeListArray&>(*values).values();
  }
  const auto& pixels = static_cast<const arrow::UInt8Array&>(*values);
  return {reinterpret_cast<const char*>(pixels.raw_values()), static_cast<size_t>(pixels.length())};
}

TEST(ImagesTest, PixelsAreThoseOfPillow) {
  TextFolder folder;
  int number = 0;
  for (const Json& one : image_files()) {
    std::string path =
        folder.write(str(number++, ".", one["kind"].get<std::string>()), from_hex(one["file"]));
    for (const Json& result : one["results"]) {
      SCOPED_TRACE(str(one["name"], " ", one["kind"], " as ", result["mode"], " ", result["size"]));
      ReadImagesOptions options{.mode = result["mode"]};
      if (result["resized"]) options.size = {result["size"][0], result["size"][1]};
      Dataset dataset = read_images(path, options);
      std::string expected = from_hex(result["pixels"]);
      EXPECT_TRUE(pixels_of(dataset) == expected);
      auto outer =
          std::static_pointer_cast<arrow::FixedSizeListType>(dataset.schema()->field(0)->type());
      EXPECT_EQ(outer->list_size(), result["size"][0]);
    }
  }
}

TEST(ImagesTest, EveryKindOfFileHasThePixelsOfPillow) {
  TextFolder folder;
  int number = 0;
  for (const Json& one : picture_files()) {
    std::string path =
        folder.write(str(number++, ".", one["kind"].get<std::string>()), from_hex(one["file"]));
    for (const char* mode : {"L", "RGB", "RGBA"}) {
      SCOPED_TRACE(str(one["name"], " ", one["kind"], " as ", mode));
      Dataset dataset = read_images(path, {.mode = mode});
      EXPECT_TRUE(pixels_of(dataset) == from_hex(one["pixels"][mode]));
      auto outer =
          std::static_pointer_cast<arrow::FixedSizeListType>(dataset.schema()->field(0)->type());
      EXPECT_EQ(outer->list_size(), one["height"]);
    }
  }
}

TEST(ImagesTest, ImagesOfOtherSizesAreResizedOrErrors) {
  TextFolder folder;
  std::vector<std::string> files;
  for (const Json& one : image_files()) files.push_back(from_hex(one["file"]));
  folder.write("x/a.png", files[0]);
  folder.write("x/b.JPG", files[6]);
  folder.write("x/c.png", files[10]);
  folder.write("x/notes.txt", "no image");
  Dataset resized = read_images(folder / "x", {.size = {{6, 6}}, .include_paths = true});
  EXPECT_EQ(resized.count(), 3);
  EXPECT_EQ(resized.to_table()->num_rows(), 3);
  EXPECT_EQ(
      resized.schema()->field(0)->type()->ToString(),
      read_images(folder / "x/a.png", {.size = {{6, 6}}}).schema()->field(0)->type()->ToString());
  EXPECT_EQ(rows_as_json(*Dataset::from_json(resized.to_json()).to_table()),
            rows_as_json(*resized.to_table()));
  EXPECT_EQ(column_as_json(resized, "path")[1], folder / "x/b.JPG");
  EXPECT_THAT(
      message_of(ErrorKind::kInvalidArgument, [&] { read_images(folder / "x").to_table(); }),
      AllOf(HasSubstr("c.png"), HasSubstr(".size"), HasSubstr("5 x 7")));
  message_of(ErrorKind::kInvalidArgument, [&] { read_images(folder / "x", {.size = {{0, 6}}}); });
  EXPECT_THAT(
      message_of(ErrorKind::kInvalidArgument, [&] { read_images(folder / "x", {.mode = "CMYK"}); }),
      HasSubstr("there is no mode 'CMYK'"));
}

TEST(ImagesTest, DamagedFilesAreErrorsThatNameThem) {
  TextFolder folder;
  for (size_t i : {size_t{0}, size_t{6}, size_t{8}}) {
    std::string file = from_hex(image_files()[i]["file"]);
    for (size_t cut : {file.size() / 4, file.size() / 2, file.size() - 20}) {
      std::string path = folder.write("a.png", file.substr(0, cut));
      EXPECT_THAT(message_of(ErrorKind::kCorrupt,
                             [&] {
                               read_images(path, {.size = {{4, 4}}}).to_table();
                             }),
                  AllOf(HasSubstr("a.png"), HasSubstr("damaged")))
          << i << " " << cut;
    }
    // A change of any byte gives an error, or other pixels.
    for (size_t at = 0; at < file.size(); ++at) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
      try {
        decode_image(damaged, ImageMode::kRgb);
      } catch (const Error&) {
      }
    }
  }
  std::string path = folder.write("b.png", "GIF89a");
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { read_images(path); }),
              AllOf(HasSubstr("b.png"), HasSubstr("no PNG or JPEG")));
  // 60,000 x 60,000 pixels in the header.
  std::string huge = from_hex(image_files()[0]["file"]);
  huge.replace(16, 8, std::string("\0\0\xea\x60\0\0\xea\x60", 8));
  message_of([&] { decode_image(huge, ImageMode::kRgb); });
}

std::string refusal_of(const std::string& file) {
  return message_of([&] { decode_image(file, ImageMode::kRgb); });
}

std::string picture(const std::string& name) {
  for (const Json& one : picture_files()) {
    if (one["name"] == name) return from_hex(one["file"]);
  }
  ADD_FAILURE() << "no picture " << name;
  return {};
}

TEST(ImagesTest, WhatHasNoPixelsIsRefused) {
  EXPECT_THAT(refusal_of(""), HasSubstr("it is empty"));
  EXPECT_THAT(refusal_of("notes"), HasSubstr("no PNG or JPEG"));
  std::string png = picture("kind 2, 8 bits");
  for (size_t side : {size_t{16}, size_t{20}}) {
    std::string none = png;
    none.replace(side, 4, std::string(4, '\0'));
    EXPECT_THAT(refusal_of(none), HasSubstr("damaged PNG"));
  }
  std::string jpeg = picture("RGB");
  size_t frame = jpeg.find("\xff\xc0");
  for (size_t side : {size_t{5}, size_t{7}}) {
    std::string none = jpeg;
    none.replace(frame + side, 2, std::string(2, '\0'));
    EXPECT_THAT(refusal_of(none), HasSubstr("damaged JPEG"));
  }
}

TEST(ImagesTest, APixelWhoseColourThePaletteLacksIsAnError) {
  std::string png = picture("kind 3, 2 bits");
  size_t palette = png.find("PLTE");
  // A palette of one colour: its length, content and checksum.
  std::string chunk = std::string("\0\0\0\3", 4) + "PLTE" + "abc" + from_hex("6d1fa50a");
  png.replace(palette - 4, 12 + 4 * 3, chunk);
  EXPECT_THAT(refusal_of(png), AllOf(HasSubstr("a pixel has colour"), HasSubstr("1 colours")));
}

}  // namespace
}  // namespace manta::data
