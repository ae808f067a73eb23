#include <arrow/compute/exec.h>
#include <arrow/datum.h>
#include <arrow/scalar.h>
#include <gtest/gtest.h>

#include "manta/core/remote.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace {

// A function that Arrow knows by name only once its compute library is initialised.
int64_t multiply(int64_t a, int64_t b) {
  auto product = check(arrow::compute::CallFunction("multiply", {arrow::Datum(a), arrow::Datum(b)}),
                       "multiplying");
  return product.scalar_as<arrow::Int64Scalar>().value;
}

TEST(ArrowCompute, IsThereInTheDriverAndInWorkers) {
  EXPECT_EQ(multiply(6, 7), 42);
  EXPECT_EQ(get(remote(multiply, 6, 7), std::chrono::seconds(30)), 42);
}

}  // namespace
}  // namespace manta
