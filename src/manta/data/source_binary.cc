#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/source_internal.h"
#include "manta/data/sources.h"
#include "manta/data/whole_files_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr FileKind kBinary = {"read_binary_files", ""};
constexpr int64_t kBinaryFragmentBytes = 8 << 20;
// Opening a file costs about as much as reading kBytesOfOpening bytes.
constexpr int64_t kBytesOfOpening = 8 << 10;

/// A row for each file, with its bytes; a fragment is some of the files.
class BinarySource final : public Source {
 public:
  BinarySource(WholeFiles files, bool include_paths)
      : files_(std::move(files)), include_paths_(include_paths) {
    std::vector<int64_t> bytes;
    for (size_t i = 0; i < files_.count(); ++i) {
      bytes.push_back(files_[i].size + kBytesOfOpening);
      if (files_[i].size <= INT32_MAX) continue;
      throw Error(ErrorKind::kInvalidArgument,
                  str("read_binary_files: '", files_[i].path, "' has ", files_[i].size,
                      " bytes; a value of a column has at most ", INT32_MAX, ": leave it out"));
    }
    groups_ = group_files(bytes, kBinaryFragmentBytes);
    for (const auto& [first, end] : groups_) {
      auto rows = static_cast<int64_t>(end - first);
      fragments_.push_back({rows, rows});
    }
  }

  std::string_view name() const override { return "binary"; }
  std::string to_string() override {
    return str("read_binary_files: ", files_.count(), " files; first file '", files_[0].path, "'");
  }
  Json to_json() override {
    Json json = {{"include_paths", include_paths_}};
    files_.add_to(json);
    return json;
  }
  std::string why_not_stored() const override { return files_.why_not_stored(); }
  std::shared_ptr<arrow::Schema> schema() override {
    arrow::FieldVector fields = {arrow::field("bytes", arrow::binary())};
    if (include_paths_) fields.push_back(arrow::field("path", arrow::utf8()));
    return arrow::schema(fields);
  }
  const std::vector<Fragment>& fragments() override { return fragments_; }
  bool rules_out(size_t, const std::vector<Bound>&) override { return false; }
  std::vector<std::string> files() const override { return files_.paths(); }
  std::string describe(size_t fragment) const override {
    auto [first, end] = groups_[fragment];
    return str(end - first, " files from '", files_[first].path, "' on");
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
        arrays.push_back(name == "path" ? paths(first, last) : contents(first, last));
      }
      take(arrow::RecordBatch::Make(arrow::schema(fields), static_cast<int64_t>(last - first),
                                    std::move(arrays)));
    }
  }

 private:
  std::shared_ptr<arrow::Array> contents(size_t first, size_t end) const {
    arrow::BinaryBuilder builder;
    for (; first < end; ++first) {
      check(builder.Append(std::string_view(*files_.read(first))), "read_binary_files");
    }
    return check(builder.Finish(), "read_binary_files");
  }
  std::shared_ptr<arrow::Array> paths(size_t first, size_t end) const {
    arrow::StringBuilder builder;
    for (; first < end; ++first) check(builder.Append(files_[first].path), "read_binary_files");
    return check(builder.Finish(), "read_binary_files");
  }

  const WholeFiles files_;
  const bool include_paths_;
  std::vector<FileGroup> groups_;
  std::vector<Fragment> fragments_;
};

}  // namespace

std::shared_ptr<Source> read_binary_source(const JsonFields& fields) {
  return std::make_shared<BinarySource>(WholeFiles(kBinary, fields),
                                        fields.boolean("include_paths"));
}

Dataset read_binary_files(const std::string& path, const ReadBinaryFilesOptions& options) {
  return read_binary_files(std::vector<std::string>{path}, options);
}

Dataset read_binary_files(const std::vector<std::string>& paths,
                          const ReadBinaryFilesOptions& options) {
  return dataset_of(std::make_shared<BinarySource>(WholeFiles(kBinary, find_files(kBinary, paths)),
                                                   options.include_paths));
}

}  // namespace manta::data
