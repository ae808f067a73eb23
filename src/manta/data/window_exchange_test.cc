// The exchange of several nodes, without I/O: messages arrive in any order that connections allow,
// and nodes decode and train at any pace.

#include <gmock/gmock.h>

#include <functional>
#include <random>

#include "manta/base/error_of_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/window_exchange_internal.h"

namespace manta::data {
namespace {

using testing::HasSubstr;

// Rows `first` to `first + rows`, in batches.
Batches ids_from(int64_t first, int64_t rows, std::mt19937& random) {
  Batches batches;
  for (int64_t row = 0; row < rows;) {
    int64_t some = std::min<int64_t>(rows - row, 1 + random() % 40);
    arrow::Int64Builder builder;
    for (int64_t i = 0; i < some; ++i) check(builder.Append(first + row + i), "id");
    batches.push_back(arrow::RecordBatch::Make(arrow::schema({arrow::field("id", arrow::int64())}),
                                               some, {check(builder.Finish(), "id")}));
    row += some;
  }
  return batches;
}

// A node with its workers, which take steps one after the other.
struct SimulatedNode {
  std::unique_ptr<WindowExchange> exchange;
  int64_t next_window = 0;  // to decode
  int64_t row = 0;          // the workers' next
  int64_t delivered = 0;
  std::vector<int64_t> ids;
  bool leaves_early = false, left = false;
};

struct Simulation {
  OpenPass open;
  std::vector<int64_t> windows;  // rows of each
  int nodes = 1;
  int64_t hold_bytes = 0, receive_bytes = 0;
  unsigned seed = 0;
};

class Simulator {
 public:
  explicit Simulator(const Simulation& what) : what_(what), random_(what.seed) {
    world_ = what_.nodes + static_cast<int>(random_() % 4);
    std::vector<std::vector<int32_t>> ranks(static_cast<size_t>(what_.nodes));
    for (int rank = 0; rank < world_; ++rank)
      ranks[static_cast<size_t>(rank < what_.nodes ? rank : random_() % ranks.size())].push_back(
          rank);
    what_.open.smallest_rest = (what_.open.global_batch + 1) / 2;
    rule_ = {what_.open.global_batch, what_.open.smallest_rest, world_, what_.open.drop_last};
    for (int node = 0; node < what_.nodes; ++node) {
      SimulatedNode& each = nodes_.emplace_back();
      ExchangeOptions options{node, what_.nodes, what_.hold_bytes, what_.receive_bytes, 64};
      each.exchange = std::make_unique<WindowExchange>(
          what_.open, static_cast<int64_t>(what_.windows.size()), ranks, options);
      each.row = each.delivered = what_.open.from.rows;
      each.next_window = what_.open.from.window;
      while (each.next_window % what_.nodes != node) ++each.next_window;
      rows_of_.emplace_back(rule_, what_.open.from.rows, ranks[static_cast<size_t>(node)]);
    }
    queues_.resize(nodes_.size() * nodes_.size());
  }

  // Until nothing can happen any more.
  void run() {
    std::vector<std::function<bool()>> moves;
    for (size_t node = 0; node < nodes_.size(); ++node) {
      moves.push_back([this, node] { return decode(node); });
      moves.push_back([this, node] { return train(node); });
      for (size_t other = 0; other < nodes_.size(); ++other)
        moves.push_back([this, node, other] { return deliver(node, other); });
    }
    for (int idle = 0; idle < 60; ++idle) {  // moves that are possible are left out at random
      std::shuffle(moves.begin(), moves.end(), random_);
      bool moved = false;
      for (auto& move : moves) moved = move() || moved;
      if (moved) idle = 0;
    }
  }

  void check_all() {
    int64_t total = 0;
    for (int64_t rows : what_.windows) total += rows;
    for (size_t node = 0; node < nodes_.size(); ++node) {
      if (nodes_[node].leaves_early) continue;
      ASSERT_TRUE(nodes_[node].exchange->at_end()) << "node " << node << " stands still";
      std::vector<int64_t> expected;
      for (const Rows& range : rows_of_[node].in(what_.open.from.rows, total, total)) {
        for (int64_t i = 0; i < range.rows; ++i) expected.push_back(range.first_row + i);
      }
      EXPECT_EQ(nodes_[node].ids, expected) << "node " << node;
    }
  }
  SimulatedNode& node(size_t number) { return nodes_[number]; }

 private:
  using Message = std::function<void(SimulatedNode& to)>;
  std::deque<Message>& queue(size_t from, size_t to) { return queues_[from * nodes_.size() + to]; }
  void tell_all(size_t from, const Message& message) {
    for (size_t to = 0; to < nodes_.size(); ++to) {
      if (to != from) queue(from, to).push_back(message);
    }
  }

  void advance(size_t node) {
    for (auto& [to, message] : nodes_[node].exchange->advance()) {
      int from = static_cast<int>(node);
      size_t other = static_cast<size_t>(to);
      if (auto* ask = std::get_if<AskRows>(&message)) {
        queue(node, other).push_back([this, from, other, ask = *ask](SimulatedNode& there) {
          Batches rows = there.exchange->rows_for(from, ask);
          queue(other, static_cast<size_t>(from))
              .push_back([other, ask, rows](SimulatedNode& here) {
                if (here.exchange->wants_rows())
                  here.exchange->arrived(static_cast<int>(other), ask.request, rows);
              });
        });
      } else {
        int64_t window = std::get<PassedWindow>(message).window;
        queue(node, other).push_back([from, window](SimulatedNode& there) {
          there.exchange->passed(from, window);
        });
      }
    }
  }

  bool decode(size_t number) {
    SimulatedNode& node = nodes_[number];
    if (node.next_window >= static_cast<int64_t>(what_.windows.size()) ||
        !node.exchange->may_decode() || random_() % 3 == 0) {
      return false;
    }
    int64_t window = node.next_window;
    node.next_window += what_.nodes;
    int64_t first = 0;
    for (int64_t i = 0; i < window; ++i) first += what_.windows[static_cast<size_t>(i)];
    int64_t rows = what_.windows[static_cast<size_t>(window)];
    auto told = node.exchange->add_window(window, ids_from(first, rows, random_), rows * 8);
    int from = static_cast<int>(number);
    tell_all(number, [from, told](SimulatedNode& to) { to.exchange->counted(from, told); });
    advance(number);
    return true;
  }

  bool train(size_t number) {
    SimulatedNode& node = nodes_[number];
    if (node.left || random_() % 2 == 0) return false;
    bool moved = false;
    while (node.exchange->ready() && random_() % 4 != 0) {
      auto needed = node.exchange->take();
      EXPECT_EQ(needed.first_row, node.delivered);
      node.delivered = needed.end_row;
      for (const auto& batch : needed.batches) {
        auto more = ints(*batch, "id");
        node.ids.insert(node.ids.end(), more.begin(), more.end());
      }
      advance(number);
      moved = true;
    }
    int from = static_cast<int>(number);
    bool ends = node.leaves_early && node.delivered > what_.open.from.rows;
    if (ends || node.exchange->at_end()) {
      node.left = true;
      node.exchange->left(from);
      tell_all(number, [from](SimulatedNode& to) { to.exchange->left(from); });
      return true;
    }
    if (node.delivered >= node.row + rule_.global_batch) {
      node.row += rule_.global_batch;
      moved = true;
    }
    int64_t until = node.row + rows_to_look_at(rule_);
    if (until > node.exchange->known() && until > wanted_[number]) {
      wanted_[number] = until;
      node.exchange->wants(from, until);
      tell_all(number, [from, until](SimulatedNode& to) { to.exchange->wants(from, until); });
      moved = true;
    }
    return moved;
  }

  bool deliver(size_t from, size_t to) {
    auto& waiting = queue(from, to);
    if (waiting.empty() || random_() % 2 == 0) return !waiting.empty();
    auto message = std::move(waiting.front());
    waiting.pop_front();
    message(nodes_[to]);
    advance(to);
    return true;
  }

  Simulation what_;
  std::mt19937 random_;
  int world_ = 1;
  StepRule rule_;
  std::vector<SimulatedNode> nodes_;
  std::vector<NodeRows> rows_of_;
  std::vector<std::deque<Message>> queues_;
  std::map<size_t, int64_t> wanted_;
};

Simulation random_simulation(unsigned seed) {
  std::mt19937 random(seed);
  Simulation what;
  what.seed = seed;
  what.nodes = 1 + static_cast<int>(random() % 4);
  what.open.global_batch = std::vector<int64_t>{11, 30, 200, 1000}[random() % 4];
  what.open.drop_last = random() % 3 == 0;
  int64_t windows = 1 + static_cast<int64_t>(random() % 30);
  for (int64_t i = 0; i < windows; ++i)
    what.windows.push_back(random() % 3 == 0 ? 0 : static_cast<int64_t>(random() % 200));
  what.hold_bytes = std::vector<int64_t>{1, 1000, 1 << 20}[random() % 3];
  what.receive_bytes = std::vector<int64_t>{1, 500, 1 << 20}[random() % 3];
  if (random() % 2 == 0) {  // goes on in the middle
    int64_t window = static_cast<int64_t>(random()) % windows, first = 0;
    for (int64_t i = 0; i < window; ++i) first += what.windows[static_cast<size_t>(i)];
    int64_t rows = what.windows[static_cast<size_t>(window)];
    if (rows > 0) {
      int64_t taken = 1 + static_cast<int64_t>(random()) % rows;
      what.open.from = {0, first + taken, window, first};
    }
  }
  return what;
}

TEST(WindowExchangeTest, EveryNodeGetsItsRowsInAnyOrderOfEvents) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    Simulator simulator(random_simulation(seed));
    simulator.run();
    simulator.check_all();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(WindowExchangeTest, ANodeThatLeavesEarlyDecodesForTheOthers) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Simulator simulator(random_simulation(seed));
    simulator.node(0).leaves_early = true;
    simulator.run();
    simulator.check_all();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(WindowExchangeTest, APositionBehindItsWindowIsRefused) {
  OpenPass open;
  open.dataset = "train";
  open.global_batch = 10;
  open.smallest_rest = 5;
  open.from = {0, 90, 1, 50};
  WindowExchange exchange(open, 4, {{0}, {1}}, {0, 2});
  Error error = error_of([&] { exchange.counted(1, {0, 1, 30, 100}); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), HasSubstr("window 1 has the rows before row 80 only"));
}

TEST(WindowExchangeTest, AWindowThatThereIsNotIsRefused) {
  OpenPass open;
  open.dataset = "train";
  open.global_batch = 10;
  open.smallest_rest = 5;
  for (int64_t window : {4, 5, 1'000'000'000}) {
    open.from = {0, 5, window, 2};
    Error error = error_of([&] { WindowExchange(open, 4, {{0}, {1}}, {0, 2}); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(error.what(), HasSubstr("which has the windows 0 to 3"));
  }
  open.from = {0, 5, 3, 2};
  EXPECT_FALSE(WindowExchange(open, 4, {{0}, {1}}, {0, 2}).at_end());
  open.from = {};
  EXPECT_TRUE(WindowExchange(open, 0, {{0}, {1}}, {0, 2}).at_end());
}

}  // namespace
}  // namespace manta::data
