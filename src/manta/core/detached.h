#pragma once

#include <sys/types.h>

#include <string>

#include "manta/core/remote.h"

namespace manta {

struct DetachedOptions {
  std::string name = {};      ///< For messages. Default: the function's own name.
  std::string log_path = {};  ///< Its output; not a symbolic link. Default: /dev/null.
};

namespace detail {
pid_t start_detached(TaskSpec spec, const DetachedOptions& options);
}

/// Runs `function(arguments...)` in a process that outlives this program, however the program ends.
/// The process exits when the function returns. It is a program of its own, with its own run, and
/// may use all of Manta. Arguments must be under 100 KB and contain no references. Returns the
/// process id once the process has started.
template <class F, class... Arguments>
pid_t run_detached(const DetachedOptions& options, F function, const Arguments&... arguments) {
  detail::require_callable<F>();
  using S = detail::SignatureOf<F>;
  static_assert(std::is_void_v<typename S::Result>,
                "manta: a detached function returns nothing: nobody waits for it");
  internal::TaskSpec spec;
  spec.function = detail::make_function(function);
  spec.name = options.name;
  detail::set_arguments(spec, std::type_identity<typename S::Parameters>(), arguments...);
  return detail::start_detached(std::move(spec), options);
}

}  // namespace manta
