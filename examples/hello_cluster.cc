// Tasks, actors and objects at work, in one program that starts everything it needs.
//
//   make run                     or: build/release/examples/hello_cluster [samples]
//
// Estimates pi by throwing darts on every CPU, counts them in an actor, shares one Arrow table
// among processes without copying it, and loses a worker on purpose. Prints about ten lines and
// returns 0.

#include <arrow/api.h>
#include <manta/manta.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <random>
#include <vector>

using namespace manta;

namespace {

// A task is any plain function.
int64_t throw_darts(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> side(-1, 1);
  int64_t hits = 0;
  for (int64_t i = 0; i < count; ++i) {
    double x = side(random), y = side(random);
    if (x * x + y * y <= 1) ++hits;
  }
  return hits;
}

// An actor is any class: an object that lives in a process of its own.
class Scoreboard {
 public:
  explicit Scoreboard(std::string game) : game_(std::move(game)) {}
  void add(int64_t hits, int64_t darts) {
    hits_ += hits;
    darts_ += darts;
  }
  double pi() const { return 4.0 * static_cast<double>(hits_) / static_cast<double>(darts_); }
  std::string summary() const {
    return game_ + ": " + std::to_string(hits_) + " of " + std::to_string(darts_) + " darts hit";
  }

 private:
  std::string game_;
  int64_t hits_ = 0, darts_ = 0;
};

std::shared_ptr<arrow::Table> make_table(int64_t rows) {
  arrow::DoubleBuilder builder;
  for (int64_t i = 0; i < rows; ++i) {
    if (!builder.Append(std::sqrt(static_cast<double>(i))).ok()) std::abort();
  }
  return arrow::Table::Make(arrow::schema({arrow::field("root", arrow::float64())}),
                            {builder.Finish().ValueOrDie()});
}

double sum_slice(const std::shared_ptr<arrow::Table>& table, int64_t begin, int64_t end) {
  double sum = 0;
  auto slice = table->Slice(begin, end - begin);
  for (const auto& chunk : slice->column(0)->chunks()) {
    const auto& values = static_cast<const arrow::DoubleArray&>(*chunk);
    for (int64_t i = 0; i < values.length(); ++i) sum += values.Value(i);
  }
  return sum;
}

int fail_at_first() {
  int attempt = get_runtime_context().attempt;
  if (attempt == 1) ::raise(SIGKILL);  // as if the machine had run out of memory
  return attempt;
}

}  // namespace

int main(int argc, char** argv) try {
  manta::init(argc, argv);
  int64_t samples = 20'000'000;
  CLI::App app(
      "Throws darts at a circle on every CPU, and shows tasks, actors and objects by the way");
  app.add_option("samples", samples, "how many darts")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{16}, int64_t{1} << 40));
  CLI11_PARSE(app, argc, argv);
  std::cout << "this machine shares out " << to_string(cluster_resources()) << "\n";

  // 16 tasks; each result goes to the actor as soon as it is there, without passing through here.
  auto board = actor<Scoreboard>("darts");
  for (uint64_t seed = 0; seed < 16; ++seed) {
    auto hits = remote(throw_darts, samples / 16, seed);
    board.call<&Scoreboard::add>(hits, samples / 16);
  }
  std::cout << get(board.call<&Scoreboard::summary>()) << "\n";
  std::cout << "pi is about " << std::setprecision(5) << get(board.call<&Scoreboard::pi>()) << "\n";

  // One table in shared memory; four tasks read their slices of it in place.
  int64_t rows = 4'000'000;
  auto table = put(make_table(rows));
  std::vector<ObjectRef<double>> sums;
  for (int64_t i = 0; i < 4; ++i)
    sums.push_back(remote(sum_slice, table, rows / 4 * i, rows / 4 * (i + 1)));
  double total = 0;
  for (double sum : get(sums)) total += sum;
  std::cout << "the roots of 0 to " << rows - 1 << " add up to " << std::setprecision(10) << total
            << "\n";

  // Tasks may start tasks, and a task whose process dies is run again.
  auto nested = remote([] { return get(remote([](int x) { return x + 1; }, 41)); });
  std::cout << "a task asked another one: " << get(nested) << "\n";
  std::cout << "a worker was killed, its task done in attempt " << get(remote(fail_at_first))
            << "\n";

  // An exception of a task is thrown again here.
  try {
    get(remote(
        {.name = "load"},
        [](const std::string& path) -> int { throw std::runtime_error("no such file: " + path); },
        "taxi.parquet"));
  } catch (const Error& error) {
    std::cout << "as expected: " << error.what() << "\n";
  }
} catch (const Error& error) {
  std::cerr << "hello_cluster: " << error.what() << std::endl;
  return 1;
}
