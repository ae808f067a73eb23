#include <arrow/api.h>

#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/data/image_internal.h"
#include "manta/data/source_internal.h"
#include "manta/data/sources.h"
#include "manta/data/whole_files_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr FileKind kImages = {"read_images", ".png .PNG .jpg .JPG .jpeg .JPEG"};
// Bytes of pixels.
constexpr int64_t kImageFragmentBytes = 16 << 20;
constexpr int64_t kMostImageSize = 16'384;

struct ImageShape {
  int64_t height = 0;
  int64_t width = 0;
  ImageMode mode = ImageMode::kRgb;
  bool resize = false;  ///< Resize images of another size; otherwise they are errors.

  int64_t bytes() const { return height * width * static_cast<int64_t>(mode); }
  std::shared_ptr<arrow::DataType> type() const {
    auto pixel = mode == ImageMode::kGray
                     ? arrow::uint8()
                     : arrow::fixed_size_list(arrow::uint8(), static_cast<int32_t>(mode));
    return arrow::fixed_size_list(arrow::fixed_size_list(pixel, static_cast<int32_t>(width)),
                                  static_cast<int32_t>(height));
  }
};

/// A row for each file, with its pixels; a fragment is some of the files.
class ImageSource final : public Source {
 public:
  ImageSource(WholeFiles files, const ImageShape& shape, bool include_paths)
      : files_(std::move(files)), shape_(shape), include_paths_(include_paths) {
    groups_ = group_files(std::vector<int64_t>(files_.count(), shape.bytes()), kImageFragmentBytes);
    for (const auto& [first, end] : groups_) {
      auto rows = static_cast<int64_t>(end - first);
      fragments_.push_back({rows, rows});
    }
  }

  std::string_view name() const override { return "images"; }
  std::string to_string() override {
    return str("read_images: ", files_.count(), " files, ", shape_.height, " x ", shape_.width, " ",
               image_mode_name(shape_.mode), "; first file '", files_[0].path, "'");
  }
  Json to_json() override {
    Json json = {{"include_paths", include_paths_},
                 {"height", shape_.height},
                 {"width", shape_.width},
                 {"mode", image_mode_name(shape_.mode)},
                 {"resize", shape_.resize}};
    files_.add_to(json);
    return json;
  }
  std::string why_not_stored() const override { return files_.why_not_stored(); }
  std::shared_ptr<arrow::Schema> schema() override {
    arrow::FieldVector fields = {arrow::field("image", shape_.type())};
    if (include_paths_) fields.push_back(arrow::field("path", arrow::utf8()));
    return arrow::schema(fields);
  }
  const std::vector<Fragment>& fragments() override { return fragments_; }
  bool rules_out(size_t, const std::vector<Bound>&) override { return false; }
  std::vector<std::string> files() const override { return files_.paths(); }
  std::string describe(size_t fragment) const override {
    auto [first, end] = groups_[fragment];
    return str(end - first, " images from '", files_[first].path, "' on");
  }

  void read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
            const TakeBatch& take) override {
    auto [first, end] = groups_[fragment];
    for (; first < end; first += static_cast<size_t>(piece_rows)) {
      size_t last = std::min(end, first + static_cast<size_t>(piece_rows));
      arrow::FieldVector fields;
      arrow::ArrayVector arrays;
      for (const auto& name : columns) {
        fields.push_back(schema()->GetFieldByName(name));
        arrays.push_back(name == "path" ? paths(first, last) : images(first, last));
      }
      take(arrow::RecordBatch::Make(arrow::schema(fields), static_cast<int64_t>(last - first),
                                    std::move(arrays)));
    }
  }

 private:
  std::shared_ptr<arrow::Array> images(size_t first, size_t end) const {
    auto rows = static_cast<int64_t>(end - first);
    std::shared_ptr<arrow::Buffer> pixels =
        check(arrow::AllocateBuffer(rows * shape_.bytes()), "read_images: making room for pixels");
    for (int64_t i = 0; i < rows; ++i) {
      Image image = decode(first + static_cast<size_t>(i));
      std::memcpy(pixels->mutable_data() + i * shape_.bytes(), image.pixels.data(),
                  image.pixels.size());
    }
    std::shared_ptr<arrow::Array> values =
        std::make_shared<arrow::UInt8Array>(rows * shape_.bytes(), std::move(pixels));
    std::vector<int64_t> counts = {rows, rows * shape_.height, rows * shape_.height * shape_.width};
    std::vector<std::shared_ptr<arrow::DataType>> types = {shape_.type()};
    while (types.back()->field(0)->type()->id() == arrow::Type::FIXED_SIZE_LIST) {
      types.push_back(types.back()->field(0)->type());
    }
    for (size_t i = types.size(); i-- > 0;) {
      values = std::make_shared<arrow::FixedSizeListArray>(types[i], counts[i], std::move(values));
    }
    return values;
  }

  Image decode(size_t file) const {
    try {
      auto bytes = files_.read(file);
      Image image = decode_image(std::string_view(*bytes), shape_.mode);
      if (image.height == shape_.height && image.width == shape_.width) return image;
      if (shape_.resize) return resize_image(image, shape_.height, shape_.width);
      throw Error(ErrorKind::kInvalidArgument,
                  str("it has ", image.height, " x ", image.width, " pixels, not ", shape_.height,
                      " x ", shape_.width, " as '", files_[0].path,
                      "'; give read_images a .size, to which all are resized"));
    } catch (const Error& error) {
      if (std::string_view(error.what()).starts_with("read_images")) throw;
      throw Error(error.kind(), str("read_images: '", files_[file].path, "': ", error.what()));
    }
  }
  std::shared_ptr<arrow::Array> paths(size_t first, size_t end) const {
    arrow::StringBuilder builder;
    for (; first < end; ++first) check(builder.Append(files_[first].path), "read_images");
    return check(builder.Finish(), "read_images");
  }

  const WholeFiles files_;
  const ImageShape shape_;
  const bool include_paths_;
  std::vector<FileGroup> groups_;
  std::vector<Fragment> fragments_;
};

ImageShape shape_from(const WholeFiles& files, const ReadImagesOptions& options) {
  ImageShape shape;
  shape.mode = image_mode(options.mode);
  if (options.size) {
    std::tie(shape.height, shape.width) = *options.size;
    shape.resize = true;
    for (int64_t side : {shape.height, shape.width}) {
      if (side >= 1 && side <= kMostImageSize) continue;
      throw Error(ErrorKind::kInvalidArgument,
                  str("read_images: .size must be {height, width}, each between 1 and ",
                      kMostImageSize, ", not ", side));
    }
    return shape;
  }
  try {
    Image first = decode_image_size(std::string_view(*files.read(0)));
    shape.height = first.height;
    shape.width = first.width;
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with("read_images")) throw;
    throw Error(error.kind(), str("read_images: '", files[0].path, "': ", error.what()));
  }
  return shape;
}

}  // namespace

std::shared_ptr<Source> read_images_source(const JsonFields& fields) {
  ImageShape shape{fields.integer("height", 1, kMostImageSide),
                   fields.integer("width", 1, kMostImageSide), image_mode(fields.text("mode")),
                   fields.boolean("resize")};
  if (shape.height * shape.width > kMostPixels * 4) fields.fail("height", "smaller");
  return std::make_shared<ImageSource>(WholeFiles(kImages, fields), shape,
                                       fields.boolean("include_paths"));
}

Dataset read_images(const std::string& path, const ReadImagesOptions& options) {
  return read_images(std::vector<std::string>{path}, options);
}

Dataset read_images(const std::vector<std::string>& paths, const ReadImagesOptions& options) {
  WholeFiles files(kImages, find_files(kImages, paths));
  ImageShape shape = shape_from(files, options);
  return dataset_of(std::make_shared<ImageSource>(std::move(files), shape, options.include_paths));
}

}  // namespace manta::data
