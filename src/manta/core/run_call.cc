#include <arrow/util/thread_pool.h>
#include <dlfcn.h>

#include <cstdlib>
#include <typeinfo>

#include "manta/base/error_internal.h"
#include "manta/core/worker_internal.h"

namespace manta {

void set_openmp_threads(int threads) {
  using SetThreads = void (*)(int);
  if (auto set = reinterpret_cast<SetThreads>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) {
    set(threads);
  }
}

void set_thread_count(int threads) {
  ::setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
  set_openmp_threads(threads);
  (void)arrow::SetCpuThreadPoolCapacity(threads);
}

Outcome run_call(const TaskSpec& spec, const std::vector<Value>& ref_values,
                 std::shared_ptr<void>* instance, std::shared_ptr<void>* keep_alive) {
  // Called only on failure: it may have to read the program's symbols.
  auto what = [&] {
    if (spec.kind == TaskKind::kActorCreate) {
      return "the constructor of actor '" + task_name(spec) + "'";
    }
    return (spec.kind == TaskKind::kActorCall ? "call '" : "task '") + task_name(spec) + "'";
  };
  try {
    auto [thunk, target] = resolve_function(spec.function);
    Invocation call;
    call.target = target;
    call.args = &spec.args;
    call.ref_args = &spec.ref_args;
    call.ref_values = &ref_values;
    call.instance = instance;
    thunk(call);
    Outcome outcome;
    outcome.ok = true;
    outcome.value = std::move(call.result);
    *keep_alive = std::move(call.keep_alive);
    return outcome;
  } catch (const Error& error) {
    // A timeout inside the task is not a timeout of the caller who waits for the task.
    auto kind = error.kind() == ErrorKind::kTimeout ? ErrorKind::kUserCode : error.kind();
    return Outcome::failed(kind, str(what(), " failed: ", error.what()));
  } catch (const std::exception& error) {
    return Outcome::failed(
        ErrorKind::kUserCode,
        str(what(), " threw ", demangle(typeid(error).name()), ": ", error.what()));
  } catch (...) {
    return Outcome::failed(ErrorKind::kUserCode,
                           str(what(), " threw something that is no std::exception"));
  }
}

}  // namespace manta
