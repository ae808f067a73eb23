#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "manta/base/error_of_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/data/s3_server_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/remote_run_internal.h"
#include "manta/train/session.h"
#include "manta/train/test_training_internal.h"

namespace manta::train {

/// For tests: collects standard error while this lives; it can be read meanwhile.
class StderrFile {
 public:
  StderrFile() : old_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
    UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    ::dup2(file.get(), STDERR_FILENO);
  }
  ~StderrFile() { ::dup2(old_.get(), STDERR_FILENO); }
  StderrFile(const StderrFile&) = delete;

  std::string text() const { return read_text(path_); }
  bool has(const std::string& words) const { return text().find(words) != std::string::npos; }

 private:
  TemporaryFolder folder_;
  const std::string path_ = folder_ / "errors";
  UniqueFd old_;
};

/// Counts to config["limit"], and reports each number with a checkpoint that holds it. Throws at
/// "break_at". After report "wait_at" it waits for the file "gate", after "last_wait_at" for
/// "last_gate"; "progress" shows how far it is. Writes "files" to the run folder at the start;
/// "expects" must be there, as it wrote them.
inline void count_up_remotely(const Json& config) {
  Context context = get_context();
  Checkpoint from = get_checkpoint();
  auto kept = new_temporary_folder("files");  // is removed with the run if this process is killed
  std::filesystem::path files = *kept;
  for (const std::string& name : config.value("expects", std::vector<std::string>()))
    if (read_text(context.run_folder + "/" + name) != name) throw std::runtime_error(name);
  for (const std::string& name : config.value("files", std::vector<std::string>())) {
    std::filesystem::create_directories(
        std::filesystem::path(context.run_folder + "/" + name).parent_path());
    std::ofstream(context.run_folder + "/" + name) << name;
  }
  for (int n = from ? std::stoi(read_text(from.file("state"))) + 1 : 0; n < config.at("limit");
       ++n) {
    if (config.value("break_at", -1) == n) throw std::runtime_error("broken");
    if (context.world_rank == 0) {
      std::filesystem::create_directories(files / "sub");
      std::ofstream(files / "state") << n;
      std::ofstream(files / "sub/large") << std::string(300'000, static_cast<char>('a' + n % 26));
      train::report({{"n", n}, {"workers", context.world_size}, {"who", config.value("who", "")}},
                    files.string());
    } else {
      train::report({{"n", n}});
    }
    if (config.contains("progress")) replace_file(config["progress"], std::to_string(n));
    for (const auto& [wait_at, gate] :
         {std::pair("wait_at", "gate"), {"last_wait_at", "last_gate"}})
      if (config.value(wait_at, -1) == n)
        eventually([&] { return std::filesystem::exists(config[gate].get<std::string>()); });
  }
}

/// Has an S3 server and its own home folder.
class RemoteStorageTest : public testing::Test {
 protected:
  RemoteStorageTest() : old_home_(std::getenv("HOME") ? std::getenv("HOME") : "") {
    set_home(home_);
  }
  ~RemoteStorageTest() override { ::setenv("HOME", old_home_.c_str(), 1); }

  static void set_home(const TemporaryFolder& home) { ::setenv("HOME", home.path().c_str(), 1); }
  RemoteAddress address(const std::string& path) const {
    return *remote_address(server_.address(path));
  }
  std::string uri() const { return server_.address("runs/toy"); }
  Training toy(const Json& config) const {
    Training training = test_training(server_.address("runs"), count_up_remotely, config);
    training.scaling.resources_per_worker = {.cpus = 0.5};
    return training;
  }
  Training restored(const std::string& from, const Json& config) const {
    RestoreChanges changes;
    changes.config = config;
    Training training = restore_training(from, "ToyTrainer", changes);
    TrainLoop loop = count_up_remotely;
    training.loop = loop.function();
    training.loop_takes_config = true;
    training.run.storage_timeout = RunConfig().storage_timeout;
    return training;
  }
  // The names below the run's address.
  std::set<std::string> names() const {
    std::set<std::string> names;
    RemoteAddress run = address("runs/toy");
    for (const auto& file : list_files_below(run))
      names.insert(file.address.path.substr(run.path.size() + 1));
    return names;
  }
  bool has(const std::string& name) const {
    return look_at(address("runs/toy/" + name)).kind == RemoteEntry::kFile;
  }
  static std::vector<std::string> spools(const TemporaryFolder& home) {
    std::vector<std::string> found;
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator(home / "manta_results/.remote", error))
      found.push_back(entry.path());
    return found;
  }
  static std::vector<int> numbers(const Result& result) {
    std::vector<int> numbers;
    for (const Json& metrics : result.metrics_history) numbers.push_back(metrics.at("n"));
    return numbers;
  }

  data::S3Server server_;
  TemporaryFolder home_, gates_;
  const std::string old_home_;
};

}  // namespace manta::train
