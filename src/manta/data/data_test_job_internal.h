#pragma once

namespace manta::data {

/// For tests: this variable makes the test program run one of these functions instead of its tests,
/// as a driver in its own environment. The function's result is the exit code: 0 if everything was
/// as it should be.
inline constexpr const char* kDataJobVariable = "MANTA_DATA_TEST_JOB";

/// "map", of batch_helpers_test.cc: on another host.
int map_on_every_host();
/// "fill", of full_disk_test.cc: on a small disk.
int fill_disk();

}  // namespace manta::data
