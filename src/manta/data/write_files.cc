#include <arrow/api.h>
#include <arrow/io/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "manta/base/error_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/processors_internal.h"
#include "manta/data/stream_internal.h"
#include "manta/data/write_files_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/io/new_file_internal.h"

namespace manta::data {
namespace {

namespace fs = std::filesystem;

/// One call of write_files.
class FilesInProgress {
 public:
  FilesInProgress(const FilesToWrite& files, const MakeWriter& make) : files_(files), make_(make) {
    make_folder();
    find_existing();
  }

  ~FilesInProgress() {
    if (done_) return;
    for (const auto& name : written_) remove(name);
  }

  void write(const std::shared_ptr<arrow::RecordBatch>& batch) {
    for (int64_t row = 0; row < batch->num_rows();) {
      begin_file(batch->schema());
      auto part = batch->Slice(row, files_.rows_per_file - rows_in_file_);
      writer_->write(part);
      rows_in_file_ += part->num_rows();
      row += part->num_rows();
      if (rows_in_file_ == files_.rows_per_file) end_file();
    }
  }

  void finish(const Dataset& dataset) {
    if (written_.empty() && !file_) begin_file(dataset.schema());
    if (file_) end_file();
    done_ = true;
    for (const auto& name : existing_) remove(name);
  }

 private:
  void make_folder() {
    std::error_code error;
    fs::create_directories(files_.folder, error);
    if (error) {
      throw Error(ErrorKind::kIo, str(files_.writer, ": making the folder '", files_.folder,
                                      "': ", error.message()));
    }
  }

  void find_existing() {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(files_.folder, error)) {
      std::string name = entry.path().filename();
      bool hidden = name.starts_with(".") || name.starts_with("_");
      if (!hidden && entry.path().extension() == files_.extension) existing_.push_back(name);
    }
    if (error) {
      throw Error(ErrorKind::kIo,
                  str(files_.writer, ": listing '", files_.folder, "': ", error.message()));
    }
    if (existing_.empty()) return;
    std::sort(existing_.begin(), existing_.end());
    if (!files_.overwrite) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(files_.writer, ": '", files_.folder, "' has ", existing_.size(), " files *",
                      files_.extension, " already, first '", existing_[0],
                      "'; choose another folder, or set .overwrite to have them replaced"));
    }
    // Other names than those that are there, which may be what is being read.
    std::random_device random;
    prefix_ = str("part-", std::hex, random(), "-");
  }

  void begin_file(const std::shared_ptr<arrow::Schema>& schema) {
    if (file_) return;
    file_ = std::make_unique<NewFile>(files_.folder);
    // The stream closes a descriptor of its own.
    int copy = ::dup(file_->fd());
    if (copy < 0) throw_errno(str(files_.writer, ": writing to '", files_.folder, "'"));
    stream_ = check(arrow::io::FileOutputStream::Open(copy), doing());
    writer_ = make_(stream_, schema);
  }

  void end_file() {
    writer_->finish();
    check(stream_->Close(), doing());
    std::string number = str(written_.size());
    std::string zeros(5 - std::min<size_t>(number.size(), 5), '0');
    std::string name = prefix_ + zeros + number + files_.extension;
    file_->publish(name);
    written_.push_back(std::move(name));
    writer_.reset();
    stream_.reset();
    file_.reset();
    rows_in_file_ = 0;
  }

  void remove(const std::string& name) const {
    std::error_code ignored;
    fs::remove(files_.folder + "/" + name, ignored);
  }

  std::string doing() const {
    return str(files_.writer, ": writing a file in '", files_.folder, "'");
  }

  const FilesToWrite& files_;
  const MakeWriter& make_;
  std::string prefix_ = "part-";
  std::vector<std::string> existing_;
  std::vector<std::string> written_;
  std::unique_ptr<NewFile> file_;
  std::shared_ptr<arrow::io::OutputStream> stream_;
  std::unique_ptr<FileWriter> writer_;
  int64_t rows_in_file_ = 0;
  bool done_ = false;
};

}  // namespace

int64_t write_files(const Dataset& dataset, const FilesToWrite& files, const MakeWriter& make) {
  if (files.rows_per_file < 1 || files.rows_per_file > kMaxRows) {
    throw Error(
        ErrorKind::kInvalidArgument,
        str(files.writer, ": .rows_per_file must be at least 1, not ", files.rows_per_file));
  }
  FilesInProgress progress(files, make);
  Stream stream(dataset.plan(), {}, {.threads = all_processors()});
  int64_t rows = 0;
  while (auto block = stream.next()) {
    progress.write(block->batch);
    rows += block->batch->num_rows();
  }
  progress.finish(dataset);
  return rows;
}

}  // namespace manta::data
