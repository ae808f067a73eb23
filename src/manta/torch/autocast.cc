#include "manta/torch/autocast.h"

#include <ATen/autocast_mode.h>

#include "manta/base/error_internal.h"

namespace manta::train {

Autocast::Autocast(const AutocastOptions& options)
    : device_(options.device),
      was_enabled_(at::autocast::is_autocast_enabled(options.device)),
      old_dtype_(at::autocast::get_autocast_dtype(options.device)),
      cached_(at::autocast::is_autocast_cache_enabled()) {
  if (options.dtype != torch::kBFloat16 && options.dtype != torch::kFloat16) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("Autocast: dtype must be torch::kBFloat16 or torch::kFloat16 (was ",
                           c10::toString(options.dtype), ")"));
  }
  // The cache does not distinguish types: it would return weights in the type of the Autocast
  // around this one.
  if (options.dtype != old_dtype_) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, options.enabled);
  at::autocast::set_autocast_dtype(device_, options.dtype);
  at::autocast::set_autocast_cache_enabled(options.cache);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  bool is_outermost = at::autocast::decrement_nesting() == 0;
  if (is_outermost || at::autocast::get_autocast_dtype(device_) != old_dtype_) {
    at::autocast::clear_cache();
  }
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, old_dtype_);
  at::autocast::set_autocast_cache_enabled(cached_);
}

}  // namespace manta::train
