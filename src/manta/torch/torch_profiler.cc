#include "manta/torch/torch_profiler.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/torch/torch_profiler_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/session_internal.h"

namespace manta {
namespace {

namespace profiling = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

std::atomic<bool> a_profiler_records{false};

}  // namespace

// PyTorch writes `path`.tmp first, even through a link of that name: a run folder may have come
// from elsewhere.
void internal::save_trace(profiling::ProfilerResult& trace, const std::string& path) {
  struct FreshFolder {
    explicit FreshFolder(const std::string& beside) : path(beside + ".XXXXXX") {
      if (!::mkdtemp(path.data())) throw_errno(manta::str("making the folder '", path, "'"));
    }
    ~FreshFolder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::string path;
  } fresh(path);
  std::string written = fresh.path + "/trace.json";
  trace.save(written);
  if (::rename(written.c_str(), path.c_str()) != 0) throw_errno(manta::str("writing '", path, "'"));
}

TorchProfiler::TorchProfiler(const TorchProfilerOptions& options) : options_(options) {
  if (options.first_step < 0 || options.num_steps < 1)
    throw Error(
        ErrorKind::kInvalidArgument,
        manta::str("TorchProfiler: first_step must not be negative (was ", options.first_step,
                   "), num_steps at least 1 (was ", options.num_steps, ")"));
  train::Session* session = train::Session::current_or_null();
  if (options.folder.empty() && !session)
    throw Error(ErrorKind::kInvalidArgument,
                "TorchProfiler: give a folder; only in a training loop there is a default");
  folder_ = options.folder.empty() ? session->begin().run_folder : options.folder;
  if (options.folder.empty()) inner_ = "profile/";
  name_ = session
              ? manta::str("rank-", session->begin().rank, ".attempt-", session->begin().attempt)
              : "rank-0";
  if (options.first_step == 0) start();
}

TorchProfiler::~TorchProfiler() { finish(); }

void TorchProfiler::step() {
  ++step_;
  if (step_ == options_.first_step + options_.num_steps) finish();
  if (step_ == options_.first_step) start();
}

void TorchProfiler::start() {
  if (a_profiler_records.exchange(true))
    return log_warning("TorchProfiler: another one records at the moment; this one does not");
  try {
    ProfilerConfig config(ProfilerState::KINETO, options_.record_shapes, options_.profile_memory);
    profiling::prepareProfiler(config, {ActivityType::CPU});
    profiling::enableProfiler(config, {ActivityType::CPU});
    recording_ = true;
  } catch (const std::exception& error) {
    a_profiler_records = false;
    log_warning(manta::str("TorchProfiler: PyTorch's profiler does not start: ", error.what()));
  }
}

void TorchProfiler::finish() {
  if (!std::exchange(recording_, false)) return;
  int64_t last = std::min(step_, options_.first_step + options_.num_steps - 1);
  std::string name = manta::str(inner_, name_, ".steps-", options_.first_step, "-", last, ".json");
  std::string path = folder_ + "/" + name;
  try {
    auto result = profiling::disableProfiler();
    train::make_folders_to(folder_, name);
    internal::save_trace(*result, path);
    path_ = path;
  } catch (const std::exception& error) {
    log_warning(manta::str("TorchProfiler: the trace '", path, "' is lost: ", error.what()));
  }
  a_profiler_records = false;
}

}  // namespace manta
