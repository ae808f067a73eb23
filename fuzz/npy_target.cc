// A .npy file.

#include <arrow/api.h>
#include <manta/base/error_internal.h>
#include <manta/data/npy_internal.h>
#include <manta/data/plan_internal.h>
#include <manta/data/sources.h>

#include "target.h"

namespace manta::fuzz::npy {

void run(std::string_view input) {
  auto plan = data::read_numpy(scratch_file("a.npy", input)).plan();
  for (size_t i = 0; i < plan->source->fragments().size(); ++i) {
    plan->source->read(i, plan->columns, 1000, [&](const data::BatchPtr& batch) {
      MANTA_CHECK(batch->ValidateFull().ok(), "a damaged batch of a .npy file");
    });
  }
}

std::vector<std::string> seeds() {
  std::string elements(48, '\1');
  return {data::npy_header(*arrow::int64(), {6}) + elements,
          data::npy_header(*arrow::float32(), {2, 3, 2}) + elements,
          data::npy_header(*arrow::boolean(), {48}) + elements};
}

}  // namespace manta::fuzz::npy
