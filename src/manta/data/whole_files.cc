#include <arrow/api.h>
#include <arrow/io/interfaces.h>

#include "manta/base/error_internal.h"
#include "manta/data/part_files_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/whole_files_internal.h"

namespace manta::data {

std::vector<std::string> WholeFiles::paths() const {
  std::vector<std::string> paths;
  for (const auto& file : files_) paths.push_back(file.path);
  return paths;
}

std::string WholeFiles::why_not_stored() const { return data::why_not_stored(paths()); }

std::shared_ptr<arrow::io::RandomAccessFile> WholeFiles::open(size_t index) const {
  const FoundFile& file = files_[index];
  DataFile opened = open_data_file(kind_, file.path);
  // A listing of S3, and the headers of a file, have the time only to the second.
  auto modified = file.modified;
  if (is_remote(file.path)) modified = std::chrono::floor<std::chrono::seconds>(modified);
  if (opened.stamp.size == file.size && opened.stamp.modified == modified) return opened.file;
  throw Error(ErrorKind::kCorrupt,
              str(kind_.reader, ": '", file.path, "' has changed since the plan was made: it had ",
                  file.size, " bytes and has ", opened.stamp.size,
                  ", or was written to; build the data set again"));
}

std::shared_ptr<arrow::Buffer> WholeFiles::read(size_t file) const {
  return read(file, 0, files_[file].size);
}

std::shared_ptr<arrow::Buffer> WholeFiles::read(size_t index, int64_t from, int64_t bytes) const {
  return read_bytes({kind_, files_[index].path, open(index), files_[index].size}, from, bytes);
}

void WholeFiles::add_to(Json& json) const {
  Json files = Json::array();
  for (const auto& file : files_) {
    files.push_back(
        {{"path", file.path}, {"size", file.size}, {"modified", file.modified.count()}});
  }
  json["files"] = std::move(files);
}

WholeFiles::WholeFiles(const FileKind& kind, const JsonFields& fields) : kind_(kind) {
  size_t count = fields.array("files").size();
  if (count == 0) fields.fail("files", "at least one file");
  for (size_t index = 0; index < count; ++index) {
    JsonFields file = fields.element("files", index);
    files_.push_back({file_path(file), file.integer("size", 0, kMaxRows),
                      std::chrono::nanoseconds(file.integer("modified", INT64_MIN, INT64_MAX))});
  }
}

std::vector<FileGroup> group_files(const std::vector<int64_t>& bytes, int64_t most_bytes) {
  std::vector<FileGroup> groups;
  int64_t together = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (groups.empty() || bytes[i] > most_bytes - together) {
      groups.emplace_back(i, i);
      together = 0;
    }
    groups.back().second = i + 1;
    together = std::min(most_bytes, together + bytes[i]);
  }
  return groups;
}

}  // namespace manta::data
