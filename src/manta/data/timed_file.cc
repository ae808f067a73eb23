#include <arrow/api.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/future.h>

#include "manta/data/pass_times_internal.h"
#include "manta/data/timed_file_internal.h"

namespace manta::data {
namespace {

template <class Call>
auto timed_read(Call call) {
  auto begin = PassClock::now();
  auto result = call();
  file_nanoseconds() += nanoseconds_since(begin);
  return result;
}

class TimedFile final : public arrow::io::RandomAccessFile {
 public:
  explicit TimedFile(std::shared_ptr<arrow::io::RandomAccessFile> file) : file_(std::move(file)) {}

  arrow::Status Close() override { return file_->Close(); }
  arrow::Status Abort() override { return file_->Abort(); }
  bool closed() const override { return file_->closed(); }
  arrow::Result<int64_t> Tell() const override { return file_->Tell(); }
  arrow::Status Seek(int64_t position) override { return file_->Seek(position); }
  arrow::Result<int64_t> GetSize() override { return file_->GetSize(); }
  bool supports_zero_copy() const override { return file_->supports_zero_copy(); }
  arrow::Status WillNeed(const std::vector<arrow::io::ReadRange>& ranges) override {
    return file_->WillNeed(ranges);
  }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    return timed_read([&] { return file_->Read(bytes, out); });
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    return timed_read([&] { return file_->Read(bytes); });
  }
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t bytes, void* out) override {
    return timed_read([&] { return file_->ReadAt(position, bytes, out); });
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t bytes) override {
    return timed_read([&] { return file_->ReadAt(position, bytes); });
  }
  arrow::Future<std::shared_ptr<arrow::Buffer>> ReadAsync(const arrow::io::IOContext& context,
                                                          int64_t position,
                                                          int64_t bytes) override {
    return file_->ReadAsync(context, position, bytes);
  }

 private:
  const std::shared_ptr<arrow::io::RandomAccessFile> file_;
};

}  // namespace

std::shared_ptr<arrow::io::RandomAccessFile> timed_file(
    std::shared_ptr<arrow::io::RandomAccessFile> file) {
  return std::make_shared<TimedFile>(std::move(file));
}

}  // namespace manta::data
