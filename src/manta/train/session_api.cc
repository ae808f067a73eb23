// The functions that a training loop calls.

#include <cerrno>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/session_internal.h"
#include "manta/train/training_internal.h"

namespace manta::train {
namespace {

// A folder of the user's own: copied before report() returns.
class FolderSource : public CheckpointSource {
 public:
  FolderSource(std::string from, std::string copy)
      : from_(std::move(from)), copy_(std::move(copy)) {}
  void stage() override {
    std::error_code error;
    if (!std::filesystem::is_directory(from_, error)) {
      throw Error(ErrorKind::kNotFound,
                  str("the checkpoint to report, '", from_, "', is not a folder"));
    }
    refuse_to_copy_into_itself();
    std::filesystem::create_directories(copy_, error);
    if (!error) {
      std::filesystem::copy(from_, copy_, std::filesystem::copy_options::recursive, error);
    }
    errno = error.value();
    if (error) throw_file_errno(str("copying the checkpoint '", from_, "' to '", copy_, "'"));
  }
  void write(CheckpointFolder& folder) override {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(copy_)) {
      if (!entry.is_regular_file()) continue;
      folder.copy(std::filesystem::relative(entry.path(), copy_).string(), entry.path().string());
    }
    std::filesystem::remove_all(copy_);
  }

 private:
  // The copy would never end, because it would copy its own files, too.
  void refuse_to_copy_into_itself() const {
    std::error_code ignored;
    auto from = std::filesystem::weakly_canonical(from_, ignored);
    auto path = std::filesystem::weakly_canonical(copy_, ignored).lexically_relative(from);
    if (path.empty() || *path.begin() == "..") return;
    throw Error(ErrorKind::kInvalidArgument,
                str("the checkpoint to report, '", from_, "', is a folder in which '", copy_,
                    "' is, to which it would be copied; report a folder that has the files of the "
                    "checkpoint only"));
  }

  std::string from_, copy_;
};

// An existing checkpoint: copied before report() returns, because it may be removed.
class CopiedCheckpoint : public CheckpointSource {
 public:
  CopiedCheckpoint(Checkpoint from, std::string copy)
      : from_(std::move(from)), copy_(std::move(copy)) {}
  void stage() override { from_ = from_.to_directory(copy_); }
  void write(CheckpointFolder& folder) override {
    for (const std::string& name : from_.files())
      if (name != kPreprocessorFile) folder.copy(name, from_.file(name));
    std::filesystem::remove_all(copy_);
  }

 private:
  Checkpoint from_;
  std::string copy_;
};

}  // namespace

Context get_context() {
  const auto& begin = Session::current("get_context").begin();
  const Place& place = begin.place;
  return {begin.rank,      begin.world_size, place.local_rank, place.local_size, place.node_rank,
          place.num_nodes, place.node,       begin.run_name,   begin.run_folder, begin.attempt};
}

void report(const Json& metrics) { Session::current("report").report(metrics, nullptr); }
void report(const Json& metrics, std::shared_ptr<CheckpointSource> checkpoint) {
  Session::current("report").report(metrics, std::move(checkpoint));
}
void report(const Json& metrics, const std::string& checkpoint_folder) {
  Session& session = Session::current("report");
  std::string copy = session.staging(session.next_report()) + ".copy";
  session.report(metrics, std::make_shared<FolderSource>(checkpoint_folder, copy));
}
void report(const Json& metrics, const Checkpoint& checkpoint) {
  if (!checkpoint) return report(metrics);
  Session& session = Session::current("report");
  std::string copy = session.staging(session.next_report()) + ".copy";
  session.report(metrics, std::make_shared<CopiedCheckpoint>(checkpoint, copy));
}
bool should_stop() { return Session::current("should_stop").should_stop(); }
Checkpoint get_checkpoint() { return Session::current("get_checkpoint").checkpoint(); }
DataShard get_dataset_shard(const std::string& name) {
  return Session::current("get_dataset_shard").shard(name);
}

}  // namespace manta::train
