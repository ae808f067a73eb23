#pragma once

#include <string>
#include <typeinfo>
#include <utility>

#include "manta/core/remote.h"

namespace manta {

namespace detail {

HandlePtr create_actor(TaskSpec spec);
std::vector<HandlePtr> create_group(std::vector<TaskSpec> specs);
HandlePtr find_actor(const std::string& name, const std::string& type);
void kill_actor(const HandlePtr& actor, bool may_restart);

// What an argument of a constructor travels as.
template <class A>
struct Travels {
  using type = A;
};
template <class A>
struct Travels<ObjectRef<A>> {
  using type = A;
};
template <>
struct Travels<const char*> {
  using type = std::string;
};
template <>
struct Travels<char*> {
  using type = std::string;
};

// What the constructor's arguments travel as: a reference stands for its value, unless the
// constructor wants the reference itself.
template <class T, class... A>
using ConstructorParameters =
    std::conditional_t<std::is_constructible_v<T, typename Travels<A>::type...> ||
                           !std::is_constructible_v<T, A...>,
                       std::tuple<typename Travels<A>::type...>, std::tuple<A...>>;

template <class T, class Parameters>
struct ConstructThunkOf;
template <class T, class... P>
struct ConstructThunkOf<T, std::tuple<P...>> {
  static_assert(std::is_constructible_v<T, P...>,
                "manta: the actor's type has no constructor for these arguments");
  using type = ConstructThunk<T, P...>;
};

template <class First, class... Rest>
inline constexpr bool starts_with_options = std::is_same_v<std::decay_t<First>, ActorOptions>;

template <class T, class... Arguments>
TaskSpec construction(const ActorOptions& options, const Arguments&... arguments) {
  using Parameters = ConstructorParameters<T, std::decay_t<Arguments>...>;
  TaskSpec spec;
  spec.kind = TaskKind::kActorCreate;
  spec.function = {thunk_address<typename ConstructThunkOf<T, Parameters>::type>(), {}};
  spec.resources = options.resources;
  spec.placement = options.placement;
  spec.labels = options.labels;
  spec.max_restarts = options.max_restarts;
  spec.max_retries = options.max_call_retries;
  spec.max_concurrency = options.max_concurrency;
  spec.actor_name = options.name;
  spec.actor_type = typeid(T).name();
  spec.process_name = options.process_name;
  spec.log_path = options.log_path;
  set_arguments(spec, std::type_identity<Parameters>(), arguments...);
  return spec;
}

}  // namespace detail

/// An object that lives in a process of its own. The process ends when the last handle is gone and
/// all calls are done. Handles can be copied, passed to tasks and returned.
template <class T>
class ActorHandle {
 public:
  ActorHandle() = default;
  explicit ActorHandle(detail::HandlePtr handle) : handle_(std::move(handle)) {}

  /// Runs `method` on the object and returns at once. The calls of one caller run in the order in
  /// which they were made, one at a time (unless ActorOptions::max_concurrency allows more).
  ///
  /// ```
  /// auto counter = actor<Counter>(10);
  /// int eleven = get(counter.call<&Counter::add>(1));
  /// ```
  template <auto Method, class... Arguments>
  auto call(const Arguments&... arguments) const {
    static_assert(std::is_member_function_pointer_v<decltype(Method)>,
                  "manta: call<&T::method>(arguments...)");
    using S = detail::Signature<decltype(Method)>;
    using R = std::decay_t<typename S::Result>;
    if constexpr (!std::is_void_v<R>) internal::require_serializable<R>();
    internal::TaskSpec spec;
    spec.kind = internal::TaskKind::kActorCall;
    spec.function = {detail::thunk_address<detail::MethodThunk<Method, T>>(), {}};
    spec.actor = detail::live_id(handle_, "the ActorHandle of a call");
    detail::set_arguments(spec, std::type_identity<typename S::Parameters>(), arguments...);
    return ObjectRef<R>(detail::submit(std::move(spec)));
  }

  explicit operator bool() const { return handle_ != nullptr; }
  const detail::HandlePtr& handle() const { return handle_; }
  void CEREAL_SAVE_FUNCTION_NAME(internal::OutArchive& archive) const {
    detail::save_handle(archive, handle_);
  }
  void CEREAL_LOAD_FUNCTION_NAME(internal::InArchive& archive) {
    handle_ = detail::load_handle(archive);
  }

 private:
  detail::HandlePtr handle_;
};

/// Constructs a T in a process of its own and returns at once. If the constructor throws, every
/// call fails with that error.
template <class T, class... Arguments>
ActorHandle<T> actor(const ActorOptions& options, const Arguments&... arguments) {
  return ActorHandle<T>(detail::create_actor(detail::construction<T>(options, arguments...)));
}

template <class T, class... Arguments>
requires(!detail::starts_with_options<Arguments..., void>)
    ActorHandle<T> actor(const Arguments&... arguments) {
  return actor<T>(ActorOptions(), arguments...);
}

/// One actor for each of `options`, all with the same arguments, none of which is a reference.
/// Either all start or none: their resources are taken together, so two groups cannot each wait for
/// what the other holds. They are placed together, by the `placement` that all must share. They
/// have no names.
template <class T, class... Arguments>
std::vector<ActorHandle<T>> actor_group(const std::vector<ActorOptions>& options,
                                        const Arguments&... arguments) {
  std::vector<internal::TaskSpec> specs;
  for (const auto& each : options) specs.push_back(detail::construction<T>(each, arguments...));
  std::vector<ActorHandle<T>> actors;
  for (auto& handle : detail::create_group(std::move(specs)))
    actors.emplace_back(std::move(handle));
  return actors;
}

/// The living actor of that name. Throws Error(kNotFound) if there is none, (kInvalidArgument) if
/// it is not a T.
template <class T>
ActorHandle<T> get_actor(const std::string& name) {
  return ActorHandle<T>(detail::find_actor(name, typeid(T).name()));
}

struct KillOptions {
  bool restart = false;  ///< Let `max_restarts` bring it back, as after a crash.
};

/// Ends an actor's process at once. Running calls fail with Error(kWorkerLost), and so do waiting
/// calls unless the actor restarts.
template <class T>
void kill(const ActorHandle<T>& actor, KillOptions options = {}) {
  detail::kill_actor(actor.handle(), options.restart);
}

}  // namespace manta
