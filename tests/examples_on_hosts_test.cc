// The main example programs, as they are, on several hosts: MANTA_CLUSTER is all that changes.

#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <regex>

#include "manta/base/json.h"
#include "manta/base/names_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/network_hosts_internal.h"
#include "manta/core/running_internal.h"

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

  // With its home in a folder of its own.
  std::string output_of(std::vector<std::string> words, const std::string& hosts = "",
                        int cpus = 0) {
    std::map<std::string, std::string> variables = {{"HOME", folder_.path()}};
    if (!hosts.empty()) {
      variables["MANTA_CLUSTER"] = str("hosts:", hosts, ";command=", hosts_->enter(),
                                       " {host} env MANTA_NODE_RESOURCES=cpus=", cpus,
                                       ";address=", NetworkHosts::address(0));
      words.insert(words.begin(), {hosts_->enter(), "n0"});
    }
    Running program(words, variables, folder_ / "output");
    EXPECT_EQ(program.exit_code(), 0) << program.said();
    return program.said();
  }
  // The number behind these words.
  static double number(const std::string& text, const std::string& words) {
    std::smatch found;
    bool is_there = std::regex_search(text, found, std::regex(words + "([-0-9.e]+)"));
    EXPECT_TRUE(is_there) << words << " in: " << text;
    return is_there ? std::stod(found[1]) : NAN;
  }

  TemporaryFolder folder_;
  std::unique_ptr<NetworkHosts> hosts_;
};

// All six workers on n1, which says that it has six CPUs, or two on each of three hosts. They add
// gradients in another order. Ten steps, since what rounding changes grows: Adam makes full steps
// of gradients that would be zero.
TEST_F(ExamplesOnHosts, TaxiLearnsTheSameOnThreeHostsAsOnOne) {
  make_hosts(4);
  if (IsSkipped()) return;
  std::string trips = folder_ / "taxi.parquet";
  output_of({example("make_taxi"), trips, "4000", "2020", "512"});
  std::vector<std::string> taxi = {example("taxi"), trips, "--workers", "6",
                                   "--epochs",      "1",   "--batch",   "64"};
  std::string one = output_of(taxi, "n1", 6);
  std::string three = output_of(taxi, "n1,n2", 2);
  EXPECT_THAT(three, HasSubstr("6 workers"));
  double loss = number(one, "\"loss\":"), held_out = number(one, "trips, loss ");
  EXPECT_NEAR(number(three, "\"loss\":"), loss, 1e-4 * loss);
  EXPECT_NEAR(number(three, "trips, loss "), held_out, 1e-4 * held_out);
  EXPECT_EQ(number(three, "held out: "), number(one, "held out: "));
}

// Its trials are drawn anew in each run, so only what it trains before is the same.
TEST_F(ExamplesOnHosts, BreastCancerTrainsTunesAndServes) {
  make_hosts(3);
  if (IsSkipped()) return;
  std::vector<std::string> program = {example("breast_cancer"), "--port", "0"};
  std::string alone = output_of(program), on_hosts = output_of(program, "n1,n2", 2);
  EXPECT_NEAR(number(on_hosts, "metrics: .*\"train-logloss\":"),
              number(alone, "metrics: .*\"train-logloss\":"), 1e-6);
  EXPECT_LT(number(on_hosts, "\"predictions\":\\["), 0.3);
}

}  // namespace
}  // namespace manta
