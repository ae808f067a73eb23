#pragma once

#include <string>

namespace manta {

/// For tests: the variable that makes a test program run a job of cluster_jobs_test.cc, as a driver
/// on another host, instead of its tests.
inline constexpr const char* kJobVariable = "MANTA_TEST_JOB";

/// The driver's exit code: 0 if everything was as it should be.
int run_cluster_job(const std::string& name);

}  // namespace manta
