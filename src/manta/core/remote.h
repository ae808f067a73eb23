#pragma once

#include <concepts>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "manta/core/node.h"
#include "manta/core/object_ref.h"
#include "manta/core/task_spec.h"

namespace manta {

namespace detail {

/// Submits the call; fills in the id, the parent, and the name if there is none. Throws
/// Error(kResources) or (kInvalidArgument) if its options can never be satisfied.
HandlePtr submit(TaskSpec spec);

template <class T>
struct IsObjectRef : std::false_type {};
template <class T>
struct IsObjectRef<ObjectRef<T>> : std::true_type {};

// An ObjectRef stands for its value, unless the parameter is an ObjectRef itself.
template <class Parameter, class Argument>
inline constexpr bool is_reference_argument = IsObjectRef<std::decay_t<Argument>>::value &&
                                              !std::is_same_v<Parameter, std::decay_t<Argument>>;

template <class Parameter, class Argument>
void add_argument(OutArchive& archive, TaskSpec& spec, uint32_t index, const Argument& argument) {
  require_serializable<Parameter>();
  if constexpr (is_reference_argument<Parameter, Argument>) {
    static_assert(std::is_same_v<std::decay_t<Argument>, ObjectRef<Parameter>>,
                  "manta: an ObjectRef<T> can only stand for a parameter of type T, exactly");
    spec.ref_args.push_back({index, live_id(argument.handle(), "an ObjectRef argument")});
  } else if constexpr (std::is_same_v<Parameter, std::decay_t<Argument>>) {
    archive(argument);
  } else {
    static_assert(std::is_convertible_v<const Argument&, Parameter>,
                  "manta: an argument cannot be converted to the function's parameter type");
    archive(static_cast<const Parameter&>(Parameter(argument)));
  }
}

template <class... Parameters, class... Arguments>
void set_arguments(TaskSpec& spec, std::type_identity<std::tuple<Parameters...>>,
                   const Arguments&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                "manta: wrong number of arguments for this function");
  std::string body;
  OutArchive archive(body);
  if constexpr (sizeof...(Parameters) == sizeof...(Arguments)) {
    [[maybe_unused]] uint32_t index = 0;
    (add_argument<Parameters>(archive, spec, index++, arguments), ...);
  }
  spec.args = finish_value(std::move(body), archive);
}

template <class F>
concept Function_ = !std::is_same_v<std::decay_t<F>, TaskOptions>;

}  // namespace detail

/// Starts `function(arguments...)` in another process and returns at once. The function is a plain
/// function or a lambda without captures. cereal serialises the arguments and the result. If you
/// give an ObjectRef<T> for a parameter of type T, the task starts when the value is there, and
/// gets it.
///
/// ```
/// auto sum = remote([](int a, int b) { return a + b; }, 1, 2);
/// auto twice = remote({.resources = {.cpus = 2}, .name = "twice"},
///                     [](int x) { return 2 * x; }, sum);
/// int six = get(twice);
/// ```
template <class F, class... Arguments>
auto remote(const TaskOptions& options, F function, const Arguments&... arguments) {
  detail::require_callable<F>();
  using S = detail::SignatureOf<F>;
  using R = std::decay_t<typename S::Result>;
  if constexpr (!std::is_void_v<R>) internal::require_serializable<R>();
  internal::TaskSpec spec;
  spec.function = detail::make_function(function);
  spec.name = options.name;
  spec.resources = options.resources;
  spec.placement = options.placement;
  spec.labels = options.labels;
  spec.max_retries = options.max_retries;
  spec.retry_exceptions = options.retry_exceptions;
  detail::set_arguments(spec, std::type_identity<typename S::Parameters>(), arguments...);
  return ObjectRef<R>(detail::submit(std::move(spec)));
}

template <detail::Function_ F, class... Arguments>
auto remote(F function, const Arguments&... arguments) {
  return remote(TaskOptions(), function, arguments...);
}

/// True in a task that was cancelled; false elsewhere. Long loops should check it now and then, and
/// return.
bool is_cancelled();

/// Where the calling code runs.
struct RuntimeContext {
  std::string process;       ///< "driver", "worker-3" or "Counter-4".
  std::string task;          ///< The name of the task or call; empty in the driver.
  int attempt = 0;           ///< 1 for a task's first run.
  std::vector<int> gpu_ids;  ///< The devices that were granted; also in CUDA_VISIBLE_DEVICES.
  std::string node;          ///< The name of the host.
  NodeId node_id = 0;        ///< See `nodes()`.
};
RuntimeContext get_runtime_context();

}  // namespace manta
