// A training run whose storage cannot be written to, from the start or after some reports, and what
// is left of it.
//
//   lost_storage <folder> <loss> <loop> [max_failures]
//
// The folder gets its own small disk, in a mount namespace of this process. Prints how fit() ended,
// in a line that begins with "failed" or "finished", and then how the run ends that is restored
// once the storage is there again: "restored", and what it went on from.

#include <manta/manta.h>
#include <sched.h>
#include <sys/mount.h>

#include <filesystem>
#include <iostream>

#include "usage.h"

using namespace manta;

namespace {

constexpr int kReports = 12;
constexpr int64_t kLossAt = 3;  // the report after which the storage is lost

void report_values(const Json& config) {
  int from = 0;
  if (auto checkpoint = train::get_checkpoint())
    from = checkpoint.to_dict().values.at("n").get<int>() + 1;
  std::string filling(config.at("bytes").get<size_t>(), 'x');
  for (int n = from; n < kReports; ++n) {
    Json metrics = {{"n", n}, {"from", from}};
    if (train::get_context().world_rank != 0) {
      train::report(metrics);
    } else {
      train::report(metrics, Checkpoint::from_dict({.values = {{"n", n}, {"filling", filling}}}));
    }
  }
}

void report_numbers(const Json& config) {
  std::string filling(config.at("bytes").get<size_t>(), 'x');
  for (int n = 0; n < kReports; ++n) train::report({{"n", n}, {"from", 0}, {"filling", filling}});
}

bool mount_small_disk(const std::string& folder, bool read_only) {
  std::filesystem::create_directories(folder);
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", folder.c_str(), "tmpfs", read_only ? MS_RDONLY : 0, "size=256k") == 0;
}

class Loses final : public Callback {
 public:
  Loses(std::string folder, std::string loss)
      : folder_(std::move(folder)), loss_(std::move(loss)) {}
  Decision on_report(const RunInfo& run, const ReportRecord& report) override {
    if (report.index != kLossAt) return Decision::go_on();
    const char* path = folder_.c_str();
    bool done = true;
    if (loss_ == "read-only") {  // open files stay open, as when a server makes its share read-only
      done = ::mount(path, path, nullptr, MS_BIND, nullptr) == 0 &&
             ::mount(nullptr, path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) == 0;
    } else if (loss_ == "covered") {
      done = ::mount("tmpfs", path, "tmpfs", MS_RDONLY, nullptr) == 0;
    } else if (loss_ == "moved") {
      std::filesystem::rename(run.path, run.path + ".away");
    }
    if (!done) throw std::runtime_error("the storage could not be taken away");
    return Decision::go_on();
  }
  void give_back() {
    const char* path = folder_.c_str();
    if (loss_ == "read-only" || loss_ == "covered") ::umount2(path, MNT_DETACH);
    if (loss_ == "full") ::mount(nullptr, path, nullptr, MS_REMOUNT, "size=16m");
    if (loss_ == "moved") {
      std::filesystem::remove_all(folder_ + "/run");  // files that a worker was just writing
      std::filesystem::rename(folder_ + "/run.away", folder_ + "/run");
    }
    if (loss_ == "never-writable") ::mount(nullptr, path, nullptr, MS_REMOUNT, nullptr);
  }

 private:
  const std::string folder_, loss_;
};

// One line, whatever is in the message.
std::string line_of(const Error& error) {
  std::string text = std::string(kind_name(error.kind())) + ": " + error.what();
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  // Before init, which starts this program again as the zygote.
  if (argc > 2 && std::string(argv[1]) != "--help" && !::getenv("DISK_IS_THERE")) {
    if (!mount_small_disk(argv[1], std::string(argv[2]) == "never-writable")) {
      std::cout << "cannot mount" << std::endl;
      return 0;
    }
    ::setenv("DISK_IS_THERE", "1", 1);
  }
  manta::init(argc, argv, {.resources = {.cpus = 4}});
  const char* text = "lost_storage <folder> <loss> <values|numbers> [max_failures]";
  if (auto done = usage(argc, argv, text, 3, 4)) return *done;
  std::string folder = argv[1], loss = argv[2];
  auto losing = std::make_shared<Loses>(folder, loss);
  bool with_values = std::string(argv[3]) == "values";
  DataParallelTrainerOptions options{
      .train_loop_per_worker = with_values ? report_values : report_numbers,
      .train_loop_config = {{"bytes", loss == "full" ? 40'000 : 10}},
      .scaling_config = {.num_workers = 2},
      .run_config = {.name = "run", .storage_path = folder, .verbose = 0, .callbacks = {losing}}};
  if (argc > 4) options.run_config.failure_config.max_failures = std::stoi(argv[4]);
  try {
    DataParallelTrainer(options).fit();
    std::cout << "finished" << std::endl;
  } catch (const Error& error) {
    std::cout << "failed " << line_of(error) << std::endl;
  }
  if (loss == "never-writable" && !DataParallelTrainer::can_restore(folder + "/run")) return 0;
  losing->give_back();
  try {
    auto trainer = DataParallelTrainer::restore(
        folder + "/run", {.train_loop_per_worker = options.train_loop_per_worker});
    Json metrics = trainer.fit().metrics;
    std::cout << "restored " << metrics.at("n") << " from " << metrics.at("from") << std::endl;
  } catch (const Error& error) {
    std::cout << "not restored " << line_of(error) << std::endl;
  }
}
