#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "manta/base/error_internal.h"
#include "manta/torch/backend_choice_internal.h"
#include "manta/torch/nccl_group_internal.h"
#include "manta/torch/process_group_internal.h"
#include "manta/torch/rank_processes_internal.h"
#include "manta/torch/torch_trainer.h"

namespace manta::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct ChoiceCase {
  BackendFacts facts;
  BackendChoice expected;
};

BackendFacts with_gpu(const std::string& asked) {
  return {.asked = asked, .gpus = "0", .sees_gpu = true, .built_for_gpu = true, .has_nccl = true};
}

TEST(BackendChoiceTest, WhichBackendForWhichDevice) {
  using enum BackendChoice::OnCpu;
  BackendFacts no_nccl = with_gpu("auto");
  no_nccl.has_nccl = false;
  BackendFacts gpu_not_given = with_gpu("auto");
  gpu_not_given.gpus = "";
  gpu_not_given.sees_gpu = false;
  BackendFacts on_hosts = with_gpu("auto");
  on_hosts.one_node = false;
  std::vector<ChoiceCase> cases = {
      {{}, {kShm, false}},
      {{.shared_memory = false}, {kGloo, false}},
      {{.one_node = false}, {kHosts, false}},
      {{.one_node = false, .shared_memory = false}, {kGloo, false}},
      {{.asked = "gloo", .shared_memory = false}, {kGloo, false}},
      {{.asked = "shm"}, {kShm, false}},
      {with_gpu("auto"), {kShm, true}},
      {with_gpu("nccl"), {kShm, true}},
      {with_gpu("shm"), {kShm, false}},
      {no_nccl, {kShm, false}},
      {gpu_not_given, {kShm, false}},
      {on_hosts, {kHosts, true}},
  };
  for (size_t i = 0; i < cases.size(); ++i)
    EXPECT_EQ(choose_backends(cases[i].facts), cases[i].expected) << "case " << i;
}

std::string refusal(const BackendFacts& facts) {
  try {
    choose_backends(facts);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "none";
}

TEST(BackendChoiceTest, NcclThatIsNotThereIsAnErrorThatSaysWhatWasAskedAndFound) {
  EXPECT_THAT(refusal({.asked = "nccl", .libtorch = "2.13.0"}),
              AllOf(HasSubstr("backend is 'nccl'"), HasSubstr("libtorch 2.13.0"),
                    HasSubstr("does not have")));
  BackendFacts facts = with_gpu("nccl");
  facts.sees_gpu = false;
  EXPECT_THAT(refusal(facts), HasSubstr("was given 0, which CUDA does not show"));
  facts.gpus = "";
  EXPECT_THAT(refusal(facts), HasSubstr("set scaling_config.use_gpu"));
}

std::string device_of(const BackendFacts& facts) {
  try {
    return choose_device(facts).str();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResources);
    return error.what();
  }
}

TEST(BackendChoiceTest, TheDeviceIsTheGpuThatWasGivenOrTheCpu) {
  EXPECT_EQ(device_of({}), "cpu");
  EXPECT_EQ(device_of({.built_for_gpu = true}), "cpu");
  EXPECT_EQ(device_of(with_gpu("auto")), "cuda:0");
  EXPECT_THAT(device_of({.gpus = "3", .libtorch = "2.13.0"}),
              AllOf(HasSubstr("given GPU 3"), HasSubstr("libtorch 2.13.0"),
                    HasSubstr("built for CPUs only"), HasSubstr("use_gpu = false")));
  EXPECT_THAT(device_of({.gpus = "3", .built_for_gpu = true}), HasSubstr("sees none"));
}

// Whatever the user, or a scheduler such as Slurm, has set: Manta gave this process no GPU.
TEST(BackendChoiceTest, WhatTheEnvironmentSaysIsNotWhatAWorkerWasGiven) {
  const char* set = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string old = set ? set : "";
  for (const char* visible : {"-1", "0", "0,1", ""}) {
    ::setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    BackendFacts facts = backend_facts();
    EXPECT_EQ(facts.gpus, "") << visible;
    facts.sees_gpu = false;
    EXPECT_EQ(device_of(facts), "cpu") << visible;
  }
  if (set) {
    ::setenv("CUDA_VISIBLE_DEVICES", old.c_str(), 1);
  } else {
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
}

// The facts on this machine, which the table above would be given.
TEST(BackendChoiceTest, TheLibtorchOfTheSetUpIsForCpus) {
  if (has_nccl()) GTEST_SKIP() << "this libtorch has NCCL";
  EXPECT_FALSE(backend_facts().has_nccl);
  EXPECT_THROW(make_nccl_backend({}, 0, 1, {}), Error);
  try {
    TorchTrainer({.train_loop_per_worker = [] {},
                  .scaling_config = {.num_workers = 2},
                  .torch_config = {.backend = "nccl"}});
    FAIL() << "a group that cannot be made was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("torch_config.backend is 'nccl'"));
  }
}

TEST(BackendChoiceTest, TensorsOnADeviceWithoutBackendAreRefusedByItsName) {
  RankProcesses ranks(2, [](const Seat& seat) {
    auto group = make_process_group({}, join(BackendKind::kShm, seat), seat.rank, seat.size);
    if (!backend_for(*group, c10::DeviceType::CPU)) throw std::runtime_error("none for the CPU");
    backend_for(*group, c10::DeviceType::CUDA);
  });
  for (int rank : {0, 1})
    EXPECT_THAT(ranks.outcome(rank), HasSubstr("cannot exchange tensors on cuda"));
}

}  // namespace
}  // namespace manta::train
