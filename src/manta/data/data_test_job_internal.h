#pragma once

namespace manta::data {

/// For tests: the variable that makes the test program, as a driver on another host, run
/// `map_on_every_host` of batch_helpers_test.cc instead of its tests.
inline constexpr const char* kDataJobVariable = "MANTA_DATA_TEST_JOB";

/// What the driver exits with: 0 if everything was as it should be.
int map_on_every_host();

}  // namespace manta::data
