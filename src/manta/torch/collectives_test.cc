// One suite over every backend of c10d that workers use. Ranks are processes of their own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/types.h>

#include <chrono>
#include <functional>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/torch/rank_processes_internal.h"

namespace manta::train {
namespace {

using namespace std::chrono_literals;
using c10d::ReduceOp;
using testing::AllOf;
using testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

/// The input of rank `rank`: small numbers that differ between ranks and elements, so that sums and
/// products are exact in every type.
at::Tensor input_of(int rank, int64_t elements, at::ScalarType type) {
  auto numbers = (at::arange(elements, at::kLong) * 7 + rank * 3) % 4 + 1;
  if (type == at::kBool) return numbers.remainder(2).to(at::kBool);
  return numbers.to(type);
}

at::Tensor combine(const at::Tensor& a, const at::Tensor& b, ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::PRODUCT:
      return a * b;
    case ReduceOp::MIN:
      return at::minimum(a, b);
    case ReduceOp::MAX:
      return at::maximum(a, b);
    case ReduceOp::BAND:
      return at::bitwise_and(a, b);
    case ReduceOp::BOR:
      return at::bitwise_or(a, b);
    case ReduceOp::BXOR:
      return at::bitwise_xor(a, b);
    default:
      return a + b;
  }
}

/// What the reduction over `ranks` must give, computed by torch in one process.
at::Tensor expected_of(int ranks, int64_t elements, at::ScalarType type, ReduceOp::RedOpType op) {
  auto wide = at::isFloatingType(type) ? at::kDouble : type;
  auto result = input_of(0, elements, type).to(wide);
  for (int rank = 1; rank < ranks; ++rank) {
    result = combine(result, input_of(rank, elements, type).to(wide), op);
  }
  if (op == ReduceOp::AVG) {
    result = at::isFloatingType(type) ? result / ranks : at::div(result, ranks, "trunc");
  }
  return result.to(type);
}

void expect_equal(const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
  if (at::equal(actual, expected)) return;
  auto differ = at::nonzero(actual.reshape(-1).ne(expected.reshape(-1))).reshape(-1);
  auto first = differ.numel() > 0 ? differ[0].item<int64_t>() : -1;
  throw std::runtime_error(str(what, ": ", differ.numel(), " of ", actual.numel(),
                               " elements differ, the first is ", first));
}

void allreduce(c10d::Backend& group, at::Tensor& tensor, ReduceOp op = ReduceOp::SUM) {
  Tensors tensors{tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  group.allreduce(tensors, options)->wait();
}

void broadcast(c10d::Backend& group, at::Tensor& tensor, int root) {
  Tensors tensors{tensor};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  group.broadcast(tensors, options)->wait();
}

constexpr auto kSlotFloats = static_cast<int64_t>(kCollectiveSlotBytes / sizeof(float));

class CollectivesTest : public testing::TestWithParam<BackendKind> {
 protected:
  /// Runs `body` on that many ranks, which must all succeed.
  void run(int ranks, const std::function<void(c10d::Backend&)>& body) {
    RankProcesses processes(ranks, [&](const Seat& seat) { body(*join(GetParam(), seat)); });
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(processes.outcome(rank), "") << rank;
  }
};

TEST_P(CollectivesTest, EveryReductionOfEveryType) {
  std::vector<ReduceOp::RedOpType> ops{ReduceOp::SUM, ReduceOp::PRODUCT, ReduceOp::MIN,
                                       ReduceOp::MAX};
  std::vector<ReduceOp::RedOpType> bit_ops{ReduceOp::BAND, ReduceOp::BOR, ReduceOp::BXOR};
  if (GetParam() != BackendKind::kGloo) ops.push_back(ReduceOp::AVG);  // Gloo has no average
  run(3, [&](c10d::Backend& group) {
    auto check = [&](at::ScalarType type, ReduceOp::RedOpType op) {
      for (int64_t elements : {1, 37, 50000}) {
        auto tensor = input_of(group.getRank(), elements, type);
        allreduce(group, tensor, op);
        expect_equal(tensor, expected_of(3, elements, type, op),
                     str(c10::toString(type), ", operation ", static_cast<int>(op), ", ", elements,
                         " elements"));
      }
    };
    for (auto type : {at::kFloat, at::kDouble, at::kHalf}) {
      for (auto op : ops) check(type, op);
    }
    for (auto type : {at::kChar, at::kByte, at::kInt, at::kLong}) {
      for (auto op : ops) check(type, op);
      for (auto op : bit_ops) check(type, op);
    }
    if (GetParam() != BackendKind::kShm) return;
    for (auto op : ops) check(at::kBFloat16, op);
    for (auto op : ops) check(at::kShort, op);
    for (auto op : {ReduceOp::MIN, ReduceOp::MAX, ReduceOp::BOR, ReduceOp::BAND, ReduceOp::BXOR}) {
      check(at::kBool, op);
    }
  });
}

TEST_P(CollectivesTest, AllreduceOfEverySize) {
  for (int ranks : {2, 3}) {
    run(ranks, [&](c10d::Backend& group) {
      for (int64_t elements :
           {int64_t{0}, int64_t{1}, int64_t{999}, 16 * 1024 - int64_t{1}, int64_t{16 * 1024},
            16 * 1024 + int64_t{1}, kSlotFloats - 1, kSlotFloats, kSlotFloats + 1,
            3 * kSlotFloats + 17, int64_t{5'000'000}}) {
        auto tensor = input_of(group.getRank(), elements, at::kFloat);
        allreduce(group, tensor);
        expect_equal(tensor, expected_of(ranks, elements, at::kFloat, ReduceOp::SUM),
                     str(elements, " elements"));
      }
    });
  }
}

TEST_P(CollectivesTest, ManyRanks) {
  for (int ranks : {4, 8}) {
    run(ranks, [&](c10d::Backend& group) {
      for (int64_t elements : {int64_t{5}, kSlotFloats + 3}) {
        auto tensor = input_of(group.getRank(), elements, at::kFloat);
        allreduce(group, tensor);
        expect_equal(tensor, expected_of(ranks, elements, at::kFloat, ReduceOp::SUM), "sum");
      }
      group.barrier()->wait();
    });
  }
}

TEST_P(CollectivesTest, BroadcastFromEveryRoot) {
  run(3, [](c10d::Backend& group) {
    for (int root = 0; root < 3; ++root) {
      for (int64_t elements : {int64_t{0}, int64_t{1}, kSlotFloats + 1, 3 * kSlotFloats}) {
        auto tensor = input_of(group.getRank(), elements, at::kFloat);
        broadcast(group, tensor, root);
        expect_equal(tensor, input_of(root, elements, at::kFloat), str("from ", root));
      }
    }
  });
}

TEST_P(CollectivesTest, GatherScatterReduce) {
  run(3, [](c10d::Backend& group) {
    int rank = group.getRank();
    for (int64_t elements : {int64_t{1}, int64_t{1001}, 2 * kSlotFloats + 5}) {
      auto input = input_of(rank, elements, at::kFloat);
      Tensors inputs{input};
      std::vector<Tensors> outputs(1);
      for (int r = 0; r < 3; ++r) outputs[0].push_back(at::zeros(elements));
      group.allgather(outputs, inputs)->wait();
      for (int r = 0; r < 3; ++r) {
        expect_equal(outputs[0][r], input_of(r, elements, at::kFloat), "allgather");
      }

      auto flat = at::zeros(3 * elements);
      group._allgather_base(flat, input)->wait();
      expect_equal(flat, at::cat(outputs[0]), "_allgather_base");

      std::vector<Tensors> gathered(rank == 1 ? 1 : 0);
      for (int r = 0; rank == 1 && r < 3; ++r) gathered[0].push_back(at::zeros(elements));
      c10d::GatherOptions gather;
      gather.rootRank = 1;
      group.gather(gathered, inputs, gather)->wait();
      if (rank == 1) expect_equal(at::cat(gathered[0]), flat, "gather");

      Tensors scattered{at::zeros(elements)};
      std::vector<Tensors> pieces(rank == 2 ? 1 : 0);
      if (rank == 2) pieces[0] = outputs[0];
      c10d::ScatterOptions scatter;
      scatter.rootRank = 2;
      group.scatter(scattered, pieces, scatter)->wait();
      expect_equal(scattered[0], input, "scatter");

      Tensors reduced{input.clone()};
      c10d::ReduceOptions reduce;
      reduce.rootRank = 2;
      group.reduce(reduced, reduce)->wait();
      if (rank == 2) {
        expect_equal(reduced[0], expected_of(3, elements, at::kFloat, ReduceOp::SUM), "reduce");
      }
    }
  });
}

TEST_P(CollectivesTest, ReduceScatterAndAlltoall) {
  run(3, [](c10d::Backend& group) {
    int rank = group.getRank();
    for (int64_t elements : {int64_t{1}, int64_t{1001}, kSlotFloats + 5}) {
      // Part p of rank r's input equals the input of rank r+p in the other tests.
      Tensors parts;
      for (int p = 0; p < 3; ++p) parts.push_back(input_of(rank + p, elements, at::kFloat));
      auto flat = at::cat(parts);
      auto expected = at::zeros(elements);
      for (int r = 0; r < 3; ++r) expected += input_of(r + rank, elements, at::kFloat);
      auto output = at::zeros(elements);
      group._reduce_scatter_base(output, flat)->wait();
      expect_equal(output, expected, "_reduce_scatter_base");

      auto exchanged = at::zeros(3 * elements);
      std::vector<int64_t> even;
      group.alltoall_base(exchanged, flat, even, even)->wait();
      for (int r = 0; r < 3; ++r) {
        expect_equal(exchanged.narrow(0, r * elements, elements),
                     input_of(r + rank, elements, at::kFloat), "alltoall_base");
      }
    }
    // Rank r sends r+1 rows to every rank.
    auto sent = at::full({3 * (rank + 1), 2}, rank);
    auto received = at::zeros({1 + 2 + 3, 2}, at::kLong);
    std::vector<int64_t> input_splits(3, rank + 1);
    std::vector<int64_t> output_splits{1, 2, 3};
    group.alltoall_base(received, sent, output_splits, input_splits)->wait();
    expect_equal(received.select(1, 0), at::tensor({0, 1, 1, 2, 2, 2}, at::kLong), "uneven");
  });
}

TEST_P(CollectivesTest, CoalescedAndNotContiguous) {
  run(2, [](c10d::Backend& group) {
    Tensors tensors{input_of(group.getRank(), 5, at::kFloat),
                    input_of(group.getRank(), 70000, at::kFloat).view({7, 10000})};
    group.allreduce_coalesced(tensors)->wait();
    expect_equal(tensors[0], expected_of(2, 5, at::kFloat, ReduceOp::SUM), "first");
    expect_equal(tensors[1].view(-1), expected_of(2, 70000, at::kFloat, ReduceOp::SUM), "second");
    if (group.getBackendName() == "gloo") return;  // Gloo takes only contiguous tensors
    auto matrix = input_of(group.getRank(), 12, at::kFloat).view({3, 4}).t();
    allreduce(group, matrix);
    expect_equal(matrix.t().reshape(-1), expected_of(2, 12, at::kFloat, ReduceOp::SUM), "matrix");
  });
}

TEST_P(CollectivesTest, NoRankPassesABarrierEarly) {
  run(3, [](c10d::Backend& group) {
    for (int round = 0; round < 6; ++round) {
      // The late rank notes the time when it enters, and sends it to all afterwards: no rank may
      // have left the barrier before that time.
      auto entered = at::zeros(1, at::kLong);
      if (round % 3 == group.getRank()) {
        std::this_thread::sleep_for(20ms);
        entered[0] = static_cast<int64_t>(Clock::now().time_since_epoch().count());
      }
      group.barrier()->wait();
      auto left = static_cast<int64_t>(Clock::now().time_since_epoch().count());
      allreduce(group, entered);
      if (left < entered[0].item<int64_t>()) throw std::runtime_error("left before the last came");
    }
  });
}

TEST_P(CollectivesTest, ManyMixedCallsInARow) {
  run(2, [](c10d::Backend& group) {
    for (int i = 0; i < 600; ++i) {
      int64_t elements = i % 50 == 49 ? kSlotFloats + i : (i * 37) % 3000;
      auto tensor = input_of(group.getRank() + i, elements, at::kFloat);
      if (i % 3 == 0) {
        broadcast(group, tensor, i % 2);
        expect_equal(tensor, input_of(i % 2 + i, elements, at::kFloat), str("broadcast ", i));
      } else {
        allreduce(group, tensor);
        auto sum = input_of(i, elements, at::kFloat) + input_of(i + 1, elements, at::kFloat);
        expect_equal(tensor, sum, str("allreduce ", i));
      }
      if (i % 7 == 0) group.barrier()->wait();
    }
  });
}

TEST_P(CollectivesTest, ALatePeerIsWaitedFor) {
  RankProcesses processes(2, [&](const Seat& seat) {
    if (seat.rank == 1) std::this_thread::sleep_for(300ms);
    auto group = join(GetParam(), seat);
    auto tensor = at::ones(10);
    if (seat.rank == 0) std::this_thread::sleep_for(300ms);
    allreduce(*group, tensor);
    expect_equal(tensor, at::full(10, 2.0f), "sum");
  });
  EXPECT_EQ(processes.outcome(0), "");
  EXPECT_EQ(processes.outcome(1), "");
}

TEST_P(CollectivesTest, APeerThatNeverJoinsEndsTheWait) {
  RankProcesses processes(3, [&](Seat seat) {
    if (seat.rank == 1) return;
    seat.timeout = 500ms;
    join(GetParam(), seat);
  });
  for (int rank : {0, 2}) {
    EXPECT_THAT(processes.outcome(rank), HasSubstr("timeout: ")) << rank;
    if (GetParam() == BackendKind::kShm) {
      EXPECT_THAT(processes.outcome(rank), HasSubstr("rank 1 did not join within 0.5 s"));
    }
  }
}

TEST_P(CollectivesTest, UnevenSizesDoNotHang) {
  RankProcesses processes(2, [&](Seat seat) {
    seat.timeout = 2s;
    auto group = join(GetParam(), seat);
    auto tensor = at::ones(seat.rank == 0 ? 1024 : 300000);
    allreduce(*group, tensor);
  });
  // Gloo need not notice; both ranks must return.
  for (int rank = 0; rank < 2; ++rank) {
    auto outcome = processes.outcome(rank);
    if (GetParam() != BackendKind::kShm) continue;
    EXPECT_THAT(outcome, AllOf(HasSubstr("rank 1 called allreduce (sum) of 1200000 bytes of float"),
                               HasSubstr("rank 0 called allreduce (sum) of 4096 bytes of float")));
  }
}

TEST_P(CollectivesTest, AKilledPeerEndsTheCall) {
  RankProcesses processes(3, [&](Seat seat) {
    seat.timeout = 20s;
    auto group = join(GetParam(), seat);
    auto tensor = at::ones(kSlotFloats * 8);
    allreduce(*group, tensor);  // before this, a rank may still be connecting
    std::thread killer;
    if (seat.rank == 1) {
      killer = std::thread([] {
        std::this_thread::sleep_for(100ms);
        ::kill(::getpid(), SIGKILL);
      });
    }
    for (;;) allreduce(*group, tensor);
  });
  EXPECT_EQ(processes.outcome(1), str("signal ", SIGKILL));
  for (int rank : {0, 2}) {
    if (GetParam() == BackendKind::kShm) {
      EXPECT_THAT(processes.outcome(rank), HasSubstr("worker lost: the process of rank 1 ("));
    } else {  // Gloo may overlook a closed connection while it sends, and then times out
      EXPECT_THAT(processes.outcome(rank),
                  testing::AnyOf(testing::StartsWith("worker lost: allreduce on rank "),
                                 testing::StartsWith("timeout: allreduce on rank ")));
    }
  }
}

TEST_P(CollectivesTest, AStoppedPeerRunsIntoTheTimeout) {
  RankProcesses processes(3, [&](Seat seat) {
    seat.timeout = 1s;
    auto group = join(GetParam(), seat);
    auto tensor = at::ones(100);
    allreduce(*group, tensor);
    if (seat.rank == 2) ::raise(SIGSTOP);
    allreduce(*group, tensor);
  });
  for (int rank : {0, 1}) {
    bool within_host = GetParam() == BackendKind::kHosts && rank == 0;
    EXPECT_THAT(processes.outcome(rank),
                HasSubstr(within_host ? "timeout: reduce " : "timeout: allreduce "));
    if (GetParam() != BackendKind::kShm) continue;
    EXPECT_THAT(processes.outcome(rank),
                AllOf(HasSubstr("timeout: allreduce (sum) of 400 bytes of float"),
                      HasSubstr("rank 2 did not arrive")));
  }
  processes.signal(2, SIGCONT);
  auto late = processes.outcome(2);
  EXPECT_NE(late, "");
  if (GetParam() == BackendKind::kShm) {
    EXPECT_EQ(late, processes.outcome(0));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, CollectivesTest,
                         testing::Values(BackendKind::kShm, BackendKind::kGloo,
                                         BackendKind::kHosts),
                         [](const auto& info) {
                           return info.param == BackendKind::kShm    ? "Shm"
                                  : info.param == BackendKind::kGloo ? "Gloo"
                                                                     : "Hosts";
                         });

// Promises of ranks on several hosts only.

// Ranks 0 and 2 are on one host, 1 and 3 on another.
TEST(HostsCollectivesTest, AKilledRankEndsSmallCallsEverywhereAndIsNamed) {
  for (int killed : {1, 3}) {  // the first of its host, and another
    SCOPED_TRACE(killed);
    RankProcesses processes(4, [&](Seat seat) {
      seat.timeout = 24h;
      auto group = join(BackendKind::kHosts, seat);
      auto tensor = at::ones(10);
      for (int i = 0; i < 3; ++i) allreduce(*group, tensor);
      if (seat.rank == killed) ::raise(SIGKILL);
      for (;;) allreduce(*group, tensor);
    });
    EXPECT_EQ(processes.outcome(killed), str("signal ", SIGKILL));
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == killed) continue;
      auto outcome = processes.outcome(rank);
      EXPECT_THAT(outcome, testing::StartsWith("worker lost: ")) << rank;
      // Each host numbers its own ranks.
      EXPECT_THAT(outcome,
                  testing::AnyOf(HasSubstr("rank 1 has ended"), HasSubstr("the process of rank ")))
          << rank;
    }
  }
}

TEST(HostsCollectivesTest, DifferentCallsOfHostsNameBoth) {
  for (int64_t elements : {10, 1'000'000}) {  // over links, and over Gloo
    RankProcesses processes(2, [&](const Seat& seat) {
      auto group = join(BackendKind::kHosts, seat);
      auto tensor = at::ones(elements + seat.rank);
      allreduce(*group, tensor);
    });
    for (int rank : {0, 1}) {
      EXPECT_THAT(processes.outcome(rank),
                  AllOf(HasSubstr("invalid argument: "), HasSubstr("hosts made different calls"),
                        HasSubstr(str("allreduce (sum) of ", 4 * elements, " bytes of float")),
                        HasSubstr(str("allreduce (sum) of ", 4 * elements + 4, " bytes"))));
    }
  }
}

// The links compare the steps of hosts, also before calls over Gloo; shared memory compares those
// of the ranks of one host.
TEST(HostsCollectivesTest, DifferentStepsAreNoticedOnEveryRank) {
  for (int ahead : {1, 2, 3}) {  // 1: with the other rank of its host
    for (int64_t elements : {10, 1'000'000}) {
      SCOPED_TRACE(str(ahead, " ", elements));
      RankProcesses processes(4, [&](Seat seat) {
        WaitWatch watch;
        seat.watch = &watch;
        auto group = join(BackendKind::kHosts, seat);
        auto tensor = at::ones(elements);
        allreduce(*group, tensor);
        watch.set_step(7);
        allreduce(*group, tensor);
        bool is_ahead = ahead == 1 ? seat.rank % 2 == 1 : seat.rank == ahead;
        watch.set_step(is_ahead ? 9 : 8);
        allreduce(*group, tensor);
      });
      for (int rank = 0; rank < 4; ++rank) {
        EXPECT_THAT(processes.outcome(rank),
                    AllOf(HasSubstr("invalid argument: "), HasSubstr("at different steps"),
                          HasSubstr("at step 9"), HasSubstr("at step 8")))
            << rank;
      }
    }
  }
}

// Small tensors and large ones go different ways, and must come out the same.
TEST(HostsCollectivesTest, TypesThatGlooLacksAreAddedAtEverySize) {
  RankProcesses processes(3, [&](const Seat& seat) {
    auto group = join(BackendKind::kHosts, seat);
    for (int64_t elements : {1, 1000, 200'000}) {
      for (auto type : {at::kShort, at::kBool}) {
        auto tensor = input_of(seat.rank, elements, type);
        allreduce(*group, tensor, ReduceOp::MAX);
        expect_equal(tensor, expected_of(3, elements, type, ReduceOp::MAX), c10::toString(type));
      }
    }
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(processes.outcome(rank), "") << rank;
}

// Promises of the shared-memory backend only.

TEST(ShmCollectivesTest, DeathIsSeenLongBeforeTheTimeout) {
  RankProcesses processes(2, [](Seat seat) {
    seat.timeout = 24h;
    auto group = join(BackendKind::kShm, seat);
    auto tensor = at::ones(1);
    allreduce(*group, tensor);
    if (seat.rank == 1) ::raise(SIGKILL);
    allreduce(*group, tensor);
  });
  EXPECT_THAT(processes.outcome(0), HasSubstr("worker lost: the process of rank 1 ("));
}

TEST(ShmCollectivesTest, DifferentCallsNameBothRanks) {
  RankProcesses processes(3, [](const Seat& seat) {
    auto group = join(BackendKind::kShm, seat);
    auto tensor = at::ones(4);
    if (seat.rank == 2) {
      broadcast(*group, tensor, 1);
    } else {
      allreduce(*group, tensor, ReduceOp::MAX);
    }
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(processes.outcome(rank),
                AllOf(HasSubstr("invalid argument: "),
                      HasSubstr("rank 2 called broadcast from rank 1 of 16 bytes of float while "
                                "rank 0 called allreduce (maximum) of 16 bytes of float")));
  }
}

TEST(ShmCollectivesTest, AfterAFailureEveryCallFailsWithTheSameCause) {
  RankProcesses processes(2, [](const Seat& seat) {
    auto group = join(BackendKind::kShm, seat);
    auto tensor = at::ones(4 + seat.rank);
    std::string first;
    for (int i = 0; i < 3; ++i) {
      try {
        allreduce(*group, tensor);
        throw std::runtime_error("no error");
      } catch (const Error& error) {
        if (i > 0 && first != error.what()) throw std::runtime_error("another cause");
        first = error.what();
      }
    }
  });
  EXPECT_EQ(processes.outcome(0), "");
  EXPECT_EQ(processes.outcome(1), "");
}

TEST(ShmCollectivesTest, ARankThatLeavesEndsTheOthersCalls) {
  RankProcesses processes(3, [](const Seat& seat) {
    auto group = join(BackendKind::kShm, seat);
    if (seat.rank == 0) {
      group.reset();
      std::this_thread::sleep_for(300ms);
      return;
    }
    group->barrier()->wait();
  });
  EXPECT_EQ(processes.outcome(0), "");
  for (int rank : {1, 2}) EXPECT_THAT(processes.outcome(rank), HasSubstr("rank 0 left its group"));
}

TEST(ShmCollectivesTest, AbortEndsTheOthersCalls) {
  RankProcesses processes(2, [](const Seat& seat) {
    auto group = join(BackendKind::kShm, seat);
    if (seat.rank == 0) group->abort();
    group->barrier()->wait();
  });
  for (int rank : {0, 1}) {
    EXPECT_THAT(processes.outcome(rank),
                AllOf(HasSubstr("cancelled: "), HasSubstr("rank 0 of a group of 2 ranks")));
  }
}

TEST(ShmCollectivesTest, ASeatIsTakenOnce) {
  auto region = create_shm_region(1);
  auto group = make_shm_backend(UniqueFd(::dup(region.get())), 0, 1);
  auto tensor = at::ones(3);
  allreduce(*group, tensor);
  EXPECT_TRUE(at::equal(tensor, at::ones(3)));
  EXPECT_THROW(make_shm_backend(UniqueFd(::dup(region.get())), 0, 1), Error);
  EXPECT_THROW(make_shm_backend(UniqueFd(::dup(region.get())), 0, 2), Error);
  EXPECT_THROW(make_shm_backend(UniqueFd(::dup(region.get())), 1, 1), Error);
}

TEST(ShmCollectivesTest, WhatItCannotDoIsAnErrorBeforeAnythingIsSent) {
  auto group = make_shm_backend(create_shm_region(1), 0, 1);
  auto floats = at::ones(3);
  EXPECT_THROW(allreduce(*group, floats, ReduceOp::BAND), Error);
  auto complex = at::ones(3, at::kComplexFloat);
  EXPECT_THROW(allreduce(*group, complex), Error);
  Tensors two{floats, floats};
  EXPECT_THROW(group->allreduce(two), Error);
  EXPECT_THROW(broadcast(*group, floats, 1), Error);
  allreduce(*group, floats);
}

}  // namespace
}  // namespace manta::train
