// The main example programs, as they are, on several hosts: MANTA_CLUSTER is all that changes.

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <set>

#include "manta/base/json.h"
#include "manta/base/names_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/network_hosts_internal.h"
#include "manta/core/ray_cluster_internal.h"
#include "manta/core/running_internal.h"
#include "manta/core/slurm_cluster_internal.h"

namespace manta {
namespace {

using testing::HasSubstr;

class ExamplesOnHosts : public testing::Test {
 protected:
  void make_hosts(int count) {
    try {
      hosts_ = std::make_unique<NetworkHosts>(count);
    } catch (const Error& error) {
      GTEST_SKIP() << "hosts for this test cannot be made here: " << error.what();
    }
  }
  static std::string example(const std::string& name) { return str(MANTA_EXAMPLES, "/", name); }

  using Variables = std::map<std::string, std::string>;

  // Runs a command with its own home folder.
  std::string run(const std::vector<std::string>& words, Variables variables) {
    variables["HOME"] = folder_.path();
    Running program(words, variables, folder_ / "output");
    EXPECT_EQ(program.exit_code(), 0) << program.said();
    return program.said();
  }
  std::string output_of(const std::vector<std::string>& words) { return run(words, {}); }
  std::string output_of(std::vector<std::string> words, const std::string& hosts, int cpus) {
    words.insert(words.begin(), {hosts_->enter(), "n0"});
    return run(words, {{"MANTA_CLUSTER", str("hosts:", hosts, ";command=", hosts_->enter(),
                                             " {host} env MANTA_NODE_RESOURCES=cpus=", cpus,
                                             ";address=", NetworkHosts::address(0))}});
  }
  // The driver on n0, with an allocation of the three nodes.
  std::string output_on(const SlurmCluster& slurm, std::vector<std::string> words,
                        const std::string& more = "") {
    words.insert(words.begin(), {hosts_->enter(), "n0", "salloc", "-N3", "--exclusive"});
    Variables variables = slurm.environment();
    variables["MANTA_CLUSTER"] = "slurm" + more;
    return run(words, variables);
  }
  std::string output_on(const RayCluster& ray, std::vector<std::string> words,
                        const std::string& more = "") {
    words.insert(words.begin(), {hosts_->enter(), "n0"});
    Variables variables = RayCluster::environment();
    variables["MANTA_CLUSTER"] = str("ray:3;python=", ray.python(), more);
    return run(words, variables);
  }
  // Clusters of the hosts n1 to n3, with the driver on n0.
  std::unique_ptr<SlurmCluster> make_slurm() {
    make_hosts(4);
    if (IsSkipped()) return nullptr;
    try {
      return std::make_unique<SlurmCluster>(*hosts_, 4);
    } catch (const Error& error) {
      skip("Slurm", error);
    }
    return nullptr;
  }
  std::unique_ptr<RayCluster> make_ray() {
    make_hosts(4);
    if (IsSkipped()) return nullptr;
    try {
      return std::make_unique<RayCluster>(*hosts_, 4, MANTA_COUNTERPARTS);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kResources) throw;
      skip("Ray", error);
    }
    return nullptr;
  }
  static void skip(const std::string& kind, const Error& error) {
    GTEST_SKIP() << "a " << kind << " cluster for this test cannot be made here: " << error.what();
  }

  // ---- The programs

  // Ten steps of six workers. On three hosts they add gradients in another order than on one, and
  // the differences of rounding grow.
  std::vector<std::string> taxi() {
    std::string trips = folder_ / "taxi.parquet";
    if (!std::filesystem::exists(trips)) {
      output_of({example("make_taxi"), trips, "4000", "2020", "512"});
    }
    return {example("taxi"), trips, "--workers", "6", "--epochs", "1", "--batch", "64"};
  }
  // All six workers on n1, which says that it has six CPUs.
  std::string taxi_on_one_host() { return output_of(taxi(), "n1", 6); }
  // Its service runs on the driver's machine, which is not part of the cluster.
  static constexpr const char* kForService = ";driver_cpus=2";
  static std::vector<std::string> breast_cancer() {
    return {example("breast_cancer"), "--port", "0"};
  }

  static void expect_same_taxi(const std::string& three, const std::string& one) {
    EXPECT_THAT(three, HasSubstr("6 workers"));
    double loss = number(one, "\"loss\":"), held_out = number(one, "trips, loss ");
    EXPECT_NEAR(number(three, "\"loss\":"), loss, 1e-4 * loss);
    EXPECT_NEAR(number(three, "trips, loss "), held_out, 1e-4 * held_out);
    EXPECT_EQ(number(three, "held out: "), number(one, "held out: "));
    expect_same_parameters(parameters_of(three), parameters_of(one));
  }
  // Its trials are drawn anew in each run, so only the training before them is the same.
  static void expect_same_breast_cancer(const std::string& on_hosts, const std::string& alone) {
    EXPECT_NEAR(number(on_hosts, "metrics: .*\"train-logloss\":"),
                number(alone, "metrics: .*\"train-logloss\":"), 1e-6);
    EXPECT_LT(number(on_hosts, "\"predictions\":\\["), 0.3);
  }

  using Parameters = std::map<std::string, std::vector<float>>;

  // The float32 tensors of the last checkpoint of the run whose output names its folder.
  static Parameters parameters_of(const std::string& said) {
    std::smatch found;
    if (!std::regex_search(said, found, std::regex("results:  (\\S+)"))) {
      ADD_FAILURE() << "no folder of results in: " << said;
      return {};
    }
    std::set<std::string> checkpoints;
    for (const auto& entry : std::filesystem::directory_iterator(found[1].str())) {
      std::string name = entry.path().filename();
      if (name.starts_with("checkpoint_")) checkpoints.insert(entry.path());
    }
    EXPECT_FALSE(checkpoints.empty());
    if (checkpoints.empty()) return {};
    std::ifstream in(*checkpoints.rbegin() + "/model.safetensors", std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    EXPECT_GT(bytes.size(), 8u) << *checkpoints.rbegin();
    if (bytes.size() <= 8) return {};
    uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof(size));
    Json header = Json::parse(bytes.substr(8, size));
    Parameters parameters;
    for (const auto& [name, tensor] : header.items()) {
      if (name == "__metadata__" || tensor.at("dtype") != "F32") continue;
      size_t begin = tensor.at("data_offsets")[0], end = tensor.at("data_offsets")[1];
      auto& values = parameters[name];
      values.resize((end - begin) / sizeof(float));
      std::memcpy(values.data(), bytes.data() + 8 + size + begin, end - begin);
    }
    return parameters;
  }

  // Compares each tensor by its norm, except the biases before a batch normalisation. The
  // normalisation subtracts them again, in its running mean, so their gradients are zero except for
  // rounding, and Adam turns these into full steps.
  static void expect_same_parameters(const Parameters& three, const Parameters& one) {
    const std::set<std::string> arbitrary = {"layers.0.bias", "layers.1.running_mean",
                                             "layers.3.bias", "layers.4.running_mean"};
    EXPECT_EQ(one.size(), 14u);
    EXPECT_EQ(three.size(), one.size());
    for (const auto& [name, values] : one) {
      auto other = three.find(name);
      ASSERT_TRUE(other != three.end()) << name;
      ASSERT_EQ(other->second.size(), values.size()) << name;
      double difference = 0, norm = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        difference += std::pow(double{values[i]} - double{other->second[i]}, 2);
        norm += std::pow(double{values[i]}, 2);
      }
      if (arbitrary.contains(name)) continue;
      EXPECT_LE(std::sqrt(difference), 1e-4 * std::sqrt(norm)) << name;
      EXPECT_GT(norm, 0) << name;
    }
  }

  // The number after these words.
  static double number(const std::string& text, const std::string& words) {
    std::smatch found;
    bool is_there = std::regex_search(text, found, std::regex(words + "([-0-9.e]+)"));
    EXPECT_TRUE(is_there) << words << " in: " << text;
    return is_there ? std::stod(found[1]) : NAN;
  }

  TemporaryFolder folder_;
  std::unique_ptr<NetworkHosts> hosts_;
};

TEST_F(ExamplesOnHosts, TaxiLearnsTheSameOnThreeHostsAsOnOne) {
  make_hosts(3);
  if (IsSkipped()) return;
  expect_same_taxi(output_of(taxi(), "n1,n2", 2), taxi_on_one_host());
}

TEST_F(ExamplesOnHosts, BreastCancerTrainsTunesAndServes) {
  make_hosts(3);
  if (IsSkipped()) return;
  expect_same_breast_cancer(output_of(breast_cancer(), "n1,n2", 2), output_of(breast_cancer()));
}

TEST_F(ExamplesOnHosts, TaxiOnSlurm) {
  auto slurm = make_slurm();
  if (!slurm) return;
  expect_same_taxi(output_on(*slurm, taxi()), taxi_on_one_host());
}

TEST_F(ExamplesOnHosts, BreastCancerOnSlurm) {
  auto slurm = make_slurm();
  if (!slurm) return;
  expect_same_breast_cancer(output_on(*slurm, breast_cancer(), kForService),
                            output_of(breast_cancer()));
}

// Both in one test: the cluster takes longer to start than they run.
TEST_F(ExamplesOnHosts, TaxiAndBreastCancerOnRay) {
  auto ray = make_ray();
  if (!ray) return;
  expect_same_taxi(output_on(*ray, taxi()), taxi_on_one_host());
  expect_same_breast_cancer(output_on(*ray, breast_cancer(), kForService),
                            output_of(breast_cancer()));
}

}  // namespace
}  // namespace manta
