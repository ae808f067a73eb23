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

// In names, so that files are in the order of their rows when they are sorted.
constexpr size_t kDigits = 5;

/// One call of write_files.
class FilesInProgress {
 public:
  FilesInProgress(const FilesToWrite& files, const MakeWriter& make) : files_(files), make_(make) {
    make_folder();
    find_existing();
  }

  ~FilesInProgress() {
    if (done_) return;
    for (const auto& name : written_) static_cast<void>(remove(name));
  }

  void write(const std::shared_ptr<arrow::RecordBatch>& batch) {
    for (int64_t row = 0; row < batch->num_rows();) {
      begin_file(batch->schema());
      auto part = batch->Slice(row, files_.rows_per_file - rows_in_file_);
      writing([&] { writer_->write(part); });
      rows_in_file_ += part->num_rows();
      row += part->num_rows();
      if (rows_in_file_ == files_.rows_per_file) end_file();
    }
  }

  void finish(const Dataset& dataset) {
    if (written_.empty() && !file_) begin_file(dataset.schema());
    if (file_) end_file();
    done_ = true;
    for (const auto& name : existing_) {
      if (auto error = remove(name)) {
        throw Error(ErrorKind::kIo,
                    str(files_.writer, ": all rows are written to '", files_.folder,
                        "', but the old file '", name, "' cannot be removed: ", error.message(),
                        "; remove it: whoever reads the folder would read its rows, too"));
      }
    }
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

  // The files that whoever reads the folder would read, too.
  void find_existing() {
    try {
      for (auto at = fs::recursive_directory_iterator(files_.folder); at != fs::end(at); ++at) {
        std::string name = at->path().filename();
        bool hidden = name.starts_with(".") || name.starts_with("_");
        if (hidden) at.disable_recursion_pending();
        if (hidden || at->path().extension() != files_.extension || at->is_directory()) continue;
        if (at.depth() > 0) throw_below(at->path());
        existing_.push_back(name);
      }
    } catch (const fs::filesystem_error& error) {
      throw Error(ErrorKind::kIo,
                  str(files_.writer, ": listing '", files_.folder, "': ", error.what()));
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

  [[noreturn]] void throw_below(const std::string& path) const {
    throw Error(ErrorKind::kInvalidArgument,
                str(files_.writer, ": '", files_.folder, "' has a file *", files_.extension,
                    " in a folder below it, '", path,
                    "', which whoever reads the folder would read, too; choose another folder"));
  }

  void begin_file(const std::shared_ptr<arrow::Schema>& schema) {
    if (file_) return;
    if (std::ssize(written_) == files_.most_files) {
      throw Error(
          ErrorKind::kInvalidArgument,
          str(files_.writer, ": there are more than ", files_.most_files * files_.rows_per_file,
              " rows, which would need more than ", files_.most_files,
              " files; give it more .rows_per_file"));
    }
    file_ = std::make_unique<NewFile>(files_.folder);
    // The stream closes a descriptor of its own.
    int copy = ::dup(file_->fd());
    if (copy < 0) throw_errno(str(files_.writer, ": writing to '", files_.folder, "'"));
    stream_ = check(arrow::io::FileOutputStream::Open(copy), doing());
    writing([&] { writer_ = make_(stream_, schema); });
  }

  void end_file() {
    writing([&] { writer_->finish(); });
    check(stream_->Close(), doing());
    // Once the old files are gone, there is nothing else.
    if (!existing_.empty() && ::fsync(file_->fd()) != 0) throw_errno(doing());
    std::string number = str(written_.size());
    std::string zeros(kDigits - number.size(), '0');
    std::string name = prefix_ + zeros + number + files_.extension;
    file_->publish(name);
    written_.push_back(std::move(name));
    writer_.reset();
    stream_.reset();
    file_.reset();
    rows_in_file_ = 0;
  }

  std::error_code remove(const std::string& name) const {
    std::error_code error;
    fs::remove(files_.folder + "/" + name, error);
    return error;
  }

  std::string doing() const {
    return str(files_.writer, ": writing a file in '", files_.folder, "'");
  }
  template <class Call>
  void writing(Call call) const {
    try {
      call();
    } catch (const Error& error) {
      throw Error(error.kind(), str(doing(), ": ", error.what()));
    }
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
