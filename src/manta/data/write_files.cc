#include <arrow/api.h>

#include <algorithm>
#include <random>

#include "manta/base/error_internal.h"
#include "manta/data/output_folder_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/processors_internal.h"
#include "manta/data/stream_internal.h"
#include "manta/data/write_files_internal.h"

namespace manta::data {
namespace {

// Digits in names, so that sorted files are in the order of their rows.
constexpr size_t kDigits = 5;

/// One call of write_files.
class FilesInProgress {
 public:
  /// `expected_rows`: for errors, if it is known.
  FilesInProgress(const FilesToWrite& files, const MakeWriter& make,
                  std::optional<int64_t> expected_rows)
      : files_(files), make_(make), expected_rows_(expected_rows) {
    naming_writer([&] { folder_ = open_output_folder(files.folder); });
    find_existing();
  }

  ~FilesInProgress() {
    if (done_) return;
    for (const auto& name : written_) {
      try {
        folder_->remove(name);
      } catch (const Error&) {  // NOLINT: what failed before is what the user must know
      }
    }
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
      try {
        folder_->remove(name);
      } catch (const Error& error) {
        throw Error(ErrorKind::kIo,
                    str(files_.writer, ": all rows are written to '", files_.folder,
                        "', but the old file '", name, "' cannot be removed: ", error.what(),
                        "; remove it: whoever reads the folder would read its rows, too"));
      }
    }
  }

 private:
  template <class Call>
  void naming_writer(Call call) const {
    try {
      call();
    } catch (const Error& error) {
      throw Error(error.kind(), str(files_.writer, ": ", error.what()));
    }
  }

  // Finds the files that a reader of the folder would read, too.
  void find_existing() {
    naming_writer([&] { existing_ = folder_->existing(files_.extensions); });
    for (const auto& name : existing_) {
      if (name.find('/') != std::string::npos) throw_below(name);
    }
    if (existing_.empty()) return;
    std::sort(existing_.begin(), existing_.end());
    if (!files_.overwrite) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(files_.writer, ": '", files_.folder, "' has ", existing_.size(), " files *",
                      extension(), " already, first '", existing_[0],
                      "'; choose another folder, or set .overwrite to have them replaced"));
    }
    // The new names must differ from those of existing files, which may be read at the moment.
    std::random_device random;
    prefix_ = str("part-", std::hex, random(), "-");
  }

  [[noreturn]] void throw_below(const std::string& path) const {
    throw Error(ErrorKind::kInvalidArgument,
                str(files_.writer, ": '", files_.folder, "' has a file *", extension(),
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
    std::string number = str(written_.size());
    name_ = prefix_ + std::string(kDigits - number.size(), '0') + number + extension();
    naming_writer([&] { file_ = folder_->create(name_); });
    writing([&] { writer_ = make_(file_->stream(), schema); });
  }

  void end_file() {
    writing([&] { writer_->finish(); });
    writer_.reset();
    // The new files must be on the disk: once the old files are gone, there is nothing else.
    writing([&] { file_->publish(!existing_.empty()); });
    written_.push_back(std::move(name_));
    file_.reset();
    rows_in_file_ = 0;
  }

  // The extension of new files: the first that readers know.
  std::string extension() const {
    std::string_view all = files_.extensions;
    return std::string(all.substr(0, all.find(' ')));
  }

  std::string doing() const {
    return str(files_.writer, ": writing a file in '", files_.folder, "'");
  }
  template <class Call>
  void writing(Call call) const {
    try {
      call();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kIo) {
        throw Error(error.kind(), str(doing(), ": ", error.what()));
      }
      int64_t rows = std::ssize(written_) * files_.rows_per_file + rows_in_file_;
      throw Error(
          ErrorKind::kIo,
          str(doing(), ", after ", rows,
              expected_rows_ ? str(" of ", *expected_rows_) : std::string(),
              " rows: ", error.what(),
              "; see that the folder has room and can be written to, or choose another one; "
              "none of the new files stays"));
    }
  }

  const FilesToWrite& files_;
  const MakeWriter& make_;
  const std::optional<int64_t> expected_rows_;
  std::string prefix_ = "part-";
  std::vector<std::string> existing_;
  std::vector<std::string> written_;
  std::unique_ptr<OutputFolder> folder_;
  std::string name_;
  std::unique_ptr<OutputFile> file_;
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
  FilesInProgress progress(files, make, dataset.plan()->known_rows());
  Stream stream(dataset.plan(), {}, {.threads = all_processors(), .progress = files.writer});
  int64_t rows = 0;
  while (auto block = stream.next()) {
    progress.write(block->batch);
    rows += block->batch->num_rows();
  }
  progress.finish(dataset);
  return rows;
}

}  // namespace manta::data
