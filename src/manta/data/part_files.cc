#include <arrow/api.h>
#include <arrow/io/interfaces.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/part_files_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/io/checksum_internal.h"
#include "manta/io/remote_files_internal.h"

namespace manta::data {
namespace {

// A file that has changed has mostly changed at one of its ends, too.
constexpr int64_t kChecksumBytes = 64 << 10;

std::string checksum_of_ends(const PartFile& file) {
  Checksum checksum;
  for (int64_t from : {int64_t{0}, std::max<int64_t>(file.size - kChecksumBytes, 0)}) {
    auto bytes = read_bytes(file, from, std::min(kChecksumBytes, file.size - from));
    checksum.add(bytes->data(), static_cast<size_t>(bytes->size()));
  }
  return checksum.hex();
}

}  // namespace

std::shared_ptr<arrow::Buffer> read_bytes(const PartFile& file, int64_t from, int64_t bytes) {
  std::string doing = str(file.kind.reader, ": reading '", file.path, "'");
  auto buffer = file.file->ReadAt(from, bytes);
  if (!buffer.ok()) throw read_error(buffer.status(), doing);
  if ((*buffer)->size() == bytes) return *buffer;
  throw Error(ErrorKind::kCorrupt, str(doing, ": it became shorter meanwhile"));
}

int64_t line_at(const PartFile& file, int64_t offset) {
  constexpr int64_t kStep = 4 << 20;
  int64_t lines = 1;
  char before = 0;
  for (int64_t at = 0; at < offset; at += kStep) {
    auto buffer = read_bytes(file, at, std::min(kStep, offset - at));
    for (char c : std::string_view(*buffer)) {
      if (c == '\r' || (c == '\n' && before != '\r')) ++lines;
      before = c;
    }
  }
  return lines;
}

std::string checksum_of(std::string_view bytes) {
  Checksum checksum;
  checksum.add(bytes.data(), bytes.size());
  return checksum.hex();
}

int64_t after_mark(const PartFile& file) {
  auto bytes = read_bytes(file, 0, std::min<int64_t>(file.size, 4));
  std::string_view first(*bytes);
  auto fail = [&](const char* what, const char* advice) {
    throw Error(ErrorKind::kInvalidArgument, str(file.kind.reader, ": '", file.path, "' is ", what,
                                                 "; only UTF-8 text is read: ", advice));
  };
  if (first.starts_with("\x1f\x8b")) fail("compressed (gzip)", "unpack it");
  if (first.starts_with("\x28\xb5\x2f\xfd")) fail("compressed (zstd)", "unpack it");
  if (first.starts_with("PAR1")) fail("a Parquet file", "use read_parquet");
  if (first.starts_with("\xff\xfe") || first.starts_with("\xfe\xff")) {
    fail("UTF-16 text", "convert it, e.g. with iconv");
  }
  return first.starts_with("\xef\xbb\xbf") ? 3 : 0;
}

FileParts cut_into_parts(const PartFile& file, int64_t offset, int64_t bytes,
                         const WholeRecords& whole, const std::function<void(int64_t)>& too_long) {
  FileParts parts{{offset}, {}};
  int64_t step = bytes;
  while (offset < file.size) {
    bool at_end = offset + step >= file.size;
    auto buffer = read_bytes(file, offset, at_end ? file.size - offset : step);
    std::string_view text(*buffer);
    auto part = text.substr(0, whole(text, at_end));
    if (part.empty()) {
      if (step >= kLongestRecord) too_long(offset);
      step *= 2;
      continue;
    }
    offset += static_cast<int64_t>(part.size());
    step = bytes;
    parts.offsets.push_back(offset);
    parts.checksums.push_back(checksum_of(part));
  }
  return parts;
}

FileParts cut_lines(const PartFile& file, int64_t offset, int64_t bytes) {
  auto whole = [](std::string_view text, bool at_end) {
    return at_end ? text.size() : text.rfind('\n') + 1;
  };
  return cut_into_parts(file, offset, bytes, whole, [&](int64_t at) {
    throw Error(ErrorKind::kCorrupt, str(file.kind.reader, ": '", file.path, "', line ",
                                         line_at(file, at), ": the line does not end within ",
                                         kLongestRecord >> 20, " MiB; is it a file of lines?"));
  });
}

void check_fragment_bytes(const FileKind& kind, int64_t bytes) {
  if (bytes >= 1 && bytes <= kMaxFragmentBytes) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(kind.reader, ": .fragment_bytes must be between 1 and ", kMaxFragmentBytes,
                  ", not ", bytes));
}

std::string file_path(const JsonFields& file) {
  auto path = file.text("path");
  bool good = !path.empty() && (path[0] == '/' || is_remote(path));
  if (!good) file.fail("path", "an absolute path, or an address");
  if (is_remote(path)) remote_address(path);  // throws
  return path;
}

std::string why_not_stored(const std::vector<std::string>& paths) {
  for (const auto& path : paths) {
    if (!is_utf8(path)) {
      return str("the path ", short_text(path), " is not UTF-8. Rename the file or its folder");
    }
  }
  return {};
}

PartFiles::PartFiles(const FileKind& kind, std::vector<FoundFile> files) : kind_(kind) {
  for (auto& file : files) add_file(std::move(file.path));
}

void PartFiles::add_file(std::string path) {
  files_.push_back(std::make_unique<File>());
  files_.back()->path = std::move(path);
}

std::vector<std::string> PartFiles::paths() const {
  std::vector<std::string> paths;
  for (const auto& file : files_) paths.push_back(file->path);
  return paths;
}

void PartFiles::throw_changed(const std::string& path, const std::string& how) const {
  throw Error(ErrorKind::kCorrupt,
              str(kind_.reader, ": '", path, "' has changed since the plan was made: ", how,
                  "; build the data set again"));
}

// The file as it was when it was opened first, or when the plan was stored.
PartFile PartFiles::open(size_t index) {
  File& file = *files_[index];
  DataFile opened = open_data_file(kind_, file.path);
  PartFile result{kind_, file.path, opened.file, opened.stamp.size};
  auto fail = [&](const std::string& how) { throw_changed(file.path, how); };
  std::lock_guard lock(file.mutex);
  if (file.stamp == opened.stamp) return result;
  if (file.stamp) fail("it was replaced or written to while the data set was in use");
  std::string checksum = checksum_of_ends(result);
  if (file.checksum.empty()) {
    file.checksum = checksum;
    file.size = result.size;
  }
  if (result.size != file.size) fail(str("it had ", file.size, " bytes and has ", result.size));
  if (checksum != file.checksum) fail("its first or last bytes are others");
  file.stamp = opened.stamp;
  return result;
}

void PartFiles::add_parts(size_t file) {
  const auto& [offsets, checksums] = files_[file]->parts;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    parts_.push_back({file, offsets[i], offsets[i + 1], checksums[i]});
    auto bytes = static_cast<__int128>(offsets[i + 1] - offsets[i]);
    auto rows = static_cast<int64_t>(bytes * sample_.rows / sample_.bytes);
    fragments_.push_back({std::nullopt, std::clamp<int64_t>(rows, 1, kMaxRows)});
  }
}

const std::vector<Fragment>& PartFiles::fragments(
    const std::function<FileParts(const PartFile&)>& cut) {
  std::lock_guard lock(mutex_);
  if (all_known_) return fragments_;
  for (size_t i = 0; i < files_.size(); ++i) {
    if (!files_[i]->parts.offsets.empty()) continue;
    auto parts = cut(open(i));
    std::lock_guard file_lock(files_[i]->mutex);
    files_[i]->parts = std::move(parts);
  }
  for (size_t i = 0; i < files_.size(); ++i) add_parts(i);
  all_known_ = true;
  return fragments_;
}

std::shared_ptr<arrow::Buffer> PartFiles::read(const PartFile& file, const Part& part) const {
  auto bytes = read_bytes(file, part.begin, part.end - part.begin);
  // Others may write to it at any time, also after it was opened.
  if (checksum_of(std::string_view(*bytes)) != part.checksum) {
    throw_changed(file.path, str("its bytes ", part.begin, " to ", part.end, " are others"));
  }
  return bytes;
}

std::string PartFiles::describe(size_t fragment) const {
  const Part& part = parts_[fragment];
  return str("bytes ", part.begin, " to ", part.end, " of '", path(part.file), "'");
}

std::string PartFiles::to_string() const {
  return str(count(), " files in ", fragments_.size(), " parts; first file '", path(0), "'");
}

std::string PartFiles::why_not_stored() const { return data::why_not_stored(paths()); }

void PartFiles::add_to(Json& json) {
  Json files = Json::array();
  for (const auto& file : files_) {
    std::lock_guard lock(file->mutex);
    files.push_back({{"path", file->path},
                     {"size", file->size},
                     {"checksum", file->checksum},
                     {"offsets", file->parts.offsets},
                     {"checksums", file->parts.checksums}});
  }
  json["files"] = std::move(files);
  json["sample_rows"] = sample_.rows;
  json["sample_bytes"] = sample_.bytes;
}

PartFiles::PartFiles(const FileKind& kind, const JsonFields& fields)
    : kind_(kind),
      sample_{fields.integer("sample_rows", 1, kMaxRows),
              fields.integer("sample_bytes", 1, kMaxRows)} {
  size_t count = fields.array("files").size();
  if (count == 0) fields.fail("files", "at least one file");
  for (size_t index = 0; index < count; ++index) {
    JsonFields file = fields.element("files", index);
    add_file(file_path(file));
    File& added = *files_.back();
    added.size = file.integer("size", 0, kMaxRows);
    added.checksum = file.text("checksum");
    auto& offsets = added.parts.offsets;
    for (const Json& offset : file.array("offsets")) {
      bool fits = offset.is_number_integer() &&
                  (offset.is_number_unsigned() || offset.get<int64_t>() >= 0) &&
                  offset.get<uint64_t>() <= static_cast<uint64_t>(added.size);
      int64_t value = fits ? offset.get<int64_t>() : 0;
      fits = fits && (offsets.empty() || offsets.back() < value);
      if (!fits) file.fail("offsets", "rising offsets within the file");
      offsets.push_back(value);
    }
    if (added.checksum.empty() || offsets.empty()) file.fail("offsets", "where parts begin");
    added.parts.checksums = file.texts("checksums");
    if (added.parts.checksums.size() + 1 != offsets.size()) {
      file.fail("checksums", "one for each part");
    }
    add_parts(index);
  }
  all_known_ = true;
}

}  // namespace manta::data
