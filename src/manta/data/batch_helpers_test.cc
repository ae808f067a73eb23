// map_batches in separate processes.

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/network_hosts_internal.h"
#include "manta/core/node.h"
#include "manta/core/remote.h"
#include "manta/core/resources_internal.h"
#include "manta/core/running_internal.h"
#include "manta/data/data_test_job_internal.h"
#include "manta/data/feed_fixture_internal.h"
#include "manta/data/sources.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The batch with the process that saw each of its rows.
BatchPtr add_process(const BatchPtr& batch) {
  arrow::Int64Builder builder;
  for (int64_t i = 0; i < batch->num_rows(); ++i) check(builder.Append(::getpid()), "test data");
  return check(batch->AddColumn(batch->num_columns(), "process", check(builder.Finish(), "")), "");
}

// Dies in the first call with each file name, even after a restart.
BatchPtr die_once(const BatchPtr& batch, const std::string& folder) {
  std::string mark = str(folder, "/", ints(*batch, "id")[0]);
  if (!std::filesystem::exists(mark) && ints(*batch, "id")[0] % 400 == 0) {
    std::ofstream(mark) << "was here";
    ::raise(SIGKILL);
  }
  return batch;
}

BatchPtr always_die(const BatchPtr& batch) {
  if (ints(*batch, "id")[0] == 500) ::raise(SIGKILL);
  return batch;
}

BatchPtr refuse_some(const BatchPtr& batch) {
  if (ints(*batch, "id")[0] == 500) throw std::runtime_error("no such word");
  return batch;
}

BatchPtr none_for_some(const BatchPtr& batch) {
  return ints(*batch, "id")[0] == 500 ? nullptr : batch;
}

const auto named_add_process = named("add_process_of_helpers_test", add_process);

std::vector<int64_t> all_ids(int64_t rows) {
  std::vector<int64_t> ids(static_cast<size_t>(rows));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  return ids;
}

Dataset blocks_of_100(int64_t rows) { return from_arrow(table_of_ids(rows, 100)); }

struct Seen {
  std::vector<int64_t> ids;
  std::set<int64_t> processes;
};
Seen walk_through(const Dataset& dataset) {
  Seen seen;
  for (const auto& batch : dataset.iter_batches({.batch_size = 64})) {
    auto ids = ints(*batch, "id");
    seen.ids.insert(seen.ids.end(), ids.begin(), ids.end());
    if (!batch->GetColumnByName("process")) continue;
    for (int64_t process : ints(*batch, "process")) seen.processes.insert(process);
  }
  return seen;
}

TEST(BatchHelpersTest, RowsComeInOrderFromOtherProcesses) {
  Dataset mapped =
      blocks_of_100(2000).map_batches(add_process, {.batch_size = 10, .concurrency = 3});
  Seen first = walk_through(mapped);
  EXPECT_EQ(first.ids, all_ids(2000));
  EXPECT_LE(first.processes.size(), 3u);
  EXPECT_FALSE(first.processes.contains(::getpid()));
  // The processes of another pass: those of the first have ended.
  Seen second = walk_through(mapped);
  EXPECT_EQ(second.ids, all_ids(2000));
  for (int64_t process : second.processes) EXPECT_FALSE(first.processes.contains(process));
  EXPECT_EQ(walk_through(mapped.filter(col("id") % 2 == 0)).ids.size(), 1000u);
  EXPECT_EQ(mapped.sort("id", {.descending = true}).take(1)->num_rows(), 1);
}

// The batch with the host that saw each of its rows.
BatchPtr add_host(const BatchPtr& batch) {
  arrow::StringBuilder builder;
  for (int64_t i = 0; i < batch->num_rows(); ++i) check(builder.Append(host_name()), "test data");
  return check(batch->AddColumn(batch->num_columns(), "host", check(builder.Finish(), "")), "");
}

// "n1: n1 n1": the host that this runs on, and those of the processes that it starts.
std::string hosts_of_helpers() {
  std::set<std::string> hosts;
  Dataset mapped = data::range(64).map_batches(add_host, {.batch_size = 4, .concurrency = 2});
  for (const auto& batch : mapped.iter_batches({.batch_size = 64})) {
    for (int64_t i = 0; i < batch->num_rows(); ++i) {
      hosts.insert(Row(batch, i).get<std::string>("host"));
    }
  }
  std::string text = host_name() + ":";
  for (const auto& host : hosts) text += " " + host;
  return text;
}

// As a data reader on another host does.
TEST(BatchHelpersTest, TheyRunOnTheHostThatReadsTheRows) {
  std::unique_ptr<NetworkHosts> hosts;
  try {
    hosts = std::make_unique<NetworkHosts>(2);
  } catch (const Error& error) {
    GTEST_SKIP() << "hosts for this test cannot be made here: " << error.what();
  }
  TemporaryFolder folder;
  Running driver({hosts->enter(), "n0", std::filesystem::read_symlink("/proc/self/exe")},
                 {{kDataJobVariable, "map"},
                  {"MANTA_CLUSTER", str("hosts:n1;command=", hosts->enter(),
                                        " {host};address=", NetworkHosts::address(0))}},
                 folder / "driver.out");
  EXPECT_EQ(driver.exit_code(), 0) << driver.said();
  EXPECT_THAT(driver.said(), AllOf(HasSubstr("n0: n0\n"), HasSubstr("n1: n1\n")));
}

TEST(BatchHelpersTest, ItIsPartOfThePlan) {
  Dataset mapped = blocks_of_100(200).map_batches(named_add_process, {.concurrency = 2});
  EXPECT_THAT(mapped.explain(), HasSubstr("concurrency = 2"));
  Dataset range_of = data::range(200).map_batches(named_add_process, {.concurrency = 2});
  Dataset stored = Dataset::from_json(range_of.to_json());
  EXPECT_FALSE(walk_through(stored).processes.contains(::getpid()));
  auto mistake = [](int concurrency) {
    return message_of([&] { range(1).map_batches(add_process, {.concurrency = concurrency}); });
  };
  EXPECT_THAT(mistake(-1), HasSubstr("or 0 for threads, not -1"));
  EXPECT_THAT(mistake(5000), HasSubstr("at most 1024 processes"));
  Json json = range_of.to_json();
  json.at("operations")[0]["concurrency"] = 0;
  EXPECT_THAT(message_of([&] { Dataset::from_json(json); }), HasSubstr("concurrency"));
}

TEST(BatchHelpersTest, ABatchWhoseProcessIsKilledIsGivenToAnother) {
  TemporaryFolder folder;
  Dataset mapped = blocks_of_100(2000).map_batches(die_once, folder.path(),
                                                   {.batch_size = 50, .concurrency = 2});
  EXPECT_EQ(walk_through(mapped).ids, all_ids(2000));
  size_t deaths = 0;
  for (const auto& mark : std::filesystem::directory_iterator(folder.path())) {
    (void)mark;
    ++deaths;
  }
  EXPECT_EQ(deaths, 5u);
}

TEST(BatchHelpersTest, WhatFailsNamesFunctionAndPlace) {
  auto failing = [](BatchFunction function) {
    return message_of([&] {
      blocks_of_100(2000).map_batches(function, {.batch_size = 50, .concurrency = 2}).to_table();
    });
  };
  EXPECT_THAT(failing(refuse_some), AllOf(HasSubstr("refuse_some"), HasSubstr("of map_batches, on"),
                                          HasSubstr("threw std::runtime_error: no such word")));
  EXPECT_THAT(failing(none_for_some), HasSubstr("returned no batch"));
  EXPECT_THAT(failing(always_die),
              AllOf(HasSubstr("always_die"), HasSubstr("in a process of its own")));
}

TEST(BatchHelpersTest, AReaderKeepsThemFromEpochToEpoch) {
  std::set<int64_t> processes;
  std::mutex mutex;
  Walk options{.options = {.batch_size = 100}, .epochs = 3};
  options.look = [&](const arrow::RecordBatch& batch) {
    std::lock_guard lock(mutex);
    for (int64_t process : ints(batch, "process")) processes.insert(process);
  };
  Dataset mapped = blocks_of_100(1000).map_batches(add_process, {.concurrency = 2});
  Walked walked = walk(mapped, 2, options);
  std::vector<int64_t> ids;
  for (const auto& step : walked.steps) ids.insert(ids.end(), step.begin(), step.end());
  auto once = all_ids(1000), thrice = once;
  thrice.insert(thrice.end(), once.begin(), once.end());
  thrice.insert(thrice.end(), once.begin(), once.end());
  EXPECT_EQ(ids, thrice);
  EXPECT_LE(processes.size(), 2u);
}

}  // namespace

int map_on_every_host() {
  for (const Node& node : nodes()) {
    TaskOptions there{.resources = {.cpus = 0}, .labels = {{"node", node.host}}};
    std::cout << get(remote(there, hosts_of_helpers), std::chrono::minutes(1)) << std::endl;
  }
  return 0;
}

}  // namespace manta::data
