#include <arrow/api.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/utf8.h>

#include "manta/base/error_internal.h"
#include "manta/data/part_files_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/sources.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr FileKind kText = {"read_text", ".txt"};
constexpr const char* kTextColumn = "text";
// Only an estimate.
constexpr RowSample kUsualLines = {1, 80};

/// Lines of text files; a fragment is some of a file's lines.
class TextSource final : public FileSource {
 public:
  TextSource(std::vector<FoundFile> files, const ReadTextOptions& options)
      : drop_empty_(options.drop_empty_lines),
        fragment_bytes_(options.fragment_bytes),
        files_(kText, std::move(files)) {
    files_.set_sample(kUsualLines);
  }
  explicit TextSource(const JsonFields& fields)
      : drop_empty_(fields.boolean("drop_empty_lines")),
        fragment_bytes_(fields.integer("fragment_bytes", 1, kMaxFragmentBytes)),
        files_(kText, fields) {}

  std::string_view name() const override { return "text"; }
  std::string to_string() override {
    fragments();
    return "read_text: " + files_.to_string();
  }
  Json to_json() override {
    fragments();
    Json json = {{"drop_empty_lines", drop_empty_}, {"fragment_bytes", fragment_bytes_}};
    files_.add_to(json);
    return json;
  }
  std::string why_not_stored() const override { return files_.why_not_stored(); }
  std::shared_ptr<arrow::Schema> schema() override {
    return arrow::schema({arrow::field(kTextColumn, arrow::utf8())});
  }
  const std::vector<Fragment>& fragments() override {
    return files_.fragments([this](const PartFile& file) {
      return cut_lines(file, after_mark(file), fragment_bytes_);
    });
  }
  bool rules_out(size_t, const std::vector<Bound>&) override { return false; }
  std::string describe(size_t fragment) const override { return files_.describe(fragment); }
  std::vector<std::string> files() const override { return files_.paths(); }
  size_t file_of(size_t fragment) const override { return files_.part(fragment).file; }

  void read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
            const TakeBatch& take) override {
    const auto& part = files_.part(fragment);
    PartFile file = files_.open(part.file);
    auto bytes = files_.read(file, part);
    std::string_view text(*bytes);
    require_utf8(text, file, part.begin);
    arrow::StringBuilder builder;
    auto flush = [&] {
      if (builder.length() == 0) return;
      auto lines = check(builder.Finish(), "read_text");
      arrow::ArrayVector arrays;
      if (!columns.empty()) arrays.push_back(lines);
      take(arrow::RecordBatch::Make(columns.empty() ? arrow::schema({}) : schema(), lines->length(),
                                    std::move(arrays)));
    };
    for (size_t at = 0; at < text.size();) {
      size_t end = std::min(text.find('\n', at), text.size());
      std::string_view line = text.substr(at, end - at);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty() || !drop_empty_) check(builder.Append(line), "read_text");
      if (builder.length() == piece_rows) flush();
      at = end + 1;
    }
    flush();
  }

 private:
  static void require_utf8(std::string_view text, const PartFile& file, int64_t offset) {
    arrow::util::InitializeUTF8();
    if (arrow::util::ValidateUTF8(text)) return;
    for (size_t at = 0; at < text.size();) {
      size_t end = std::min(text.find('\n', at), text.size());
      if (!arrow::util::ValidateUTF8(text.substr(at, end - at))) {
        throw Error(ErrorKind::kInvalidArgument,
                    str("read_text: '", file.path, "', line ",
                        line_at(file, offset + static_cast<int64_t>(at)),
                        ": its bytes are no UTF-8 text: convert the file, e.g. with iconv, or use "
                        "read_binary_files"));
      }
      at = end + 1;
    }
  }

  bool drop_empty_;
  int64_t fragment_bytes_;
  PartFiles files_;
};

}  // namespace

std::shared_ptr<Source> read_text_source(const JsonFields& fields) {
  return std::make_shared<TextSource>(fields);
}

Dataset read_text(const std::string& path, const ReadTextOptions& options) {
  return read_text(std::vector<std::string>{path}, options);
}

Dataset read_text(const std::vector<std::string>& paths, const ReadTextOptions& options) {
  check_fragment_bytes(kText, options.fragment_bytes);
  return dataset_of(std::make_shared<TextSource>(find_files(kText, paths), options));
}

}  // namespace manta::data
