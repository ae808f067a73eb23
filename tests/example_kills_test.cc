// The example programs that train, while their processes are killed at random moments.

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <regex>
#include <sstream>
#include <thread>

#include "manta/base/names_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/running_internal.h"
#include "manta/train/checkpoint.h"
#include "manta/train/journal_internal.h"
#include "process_tree.h"

namespace manta {
namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;

struct Example {
  std::string name;
  std::vector<std::string> arguments;
  /// The part of its output that is the same however often it was disturbed. Empty: no part.
  std::string result;
  /// How many kills of its processes, other than the driver, each of its runs survives. With 0 it
  /// may end with an error that says what was killed.
  int survives = 0;
  bool can_restore = false;
};

std::vector<Example> examples(const std::string& trips) {
  return {
      {"taxi", {trips, "--epochs", "4", "--batch", "64"}, "held out: .*|metrics: .*", 3, true},
      {"linear_regression", {"--epochs", "12"}, "epoch .*|y = .*", 3},
      {"checkpoint_resume", {}, "loss .*", 3},
      {"fault_tolerance", {}, "loss [-0-9.e]+|[0-9]+ epochs, each reported once", 2},
      {"earlier_style", {}, "loss .*|y = .*", 3},
      {"trees", {str(MANTA_EXAMPLE_DATA, "/breast_cancer.csv")}, "\"train-.*|.* are right; .*", 3},
      {"quick_start", {}, "loss .*"},
      {"mixed_precision", {}, "float16: .*"},
      {"tracked", {}, "loss .*"},
      {"chain", {}, ".*logloss.*"},
      {"breast_cancer", {"--port", "0"}, "metrics: .*"},
      {"tune_preprocessors", {}, "4 trials"},
  };
}

/// One start of a program, with its own folders for results and temporary files.
class Start {
 public:
  Start(const Example& example, const std::string& home, const std::string& temporary,
        const std::string& restore = "")
      : before_(entries(temporary)),
        temporary_(temporary),
        began_(std::chrono::steady_clock::now()) {
    std::vector<std::string> words{str(MANTA_EXAMPLES, "/", example.name)};
    words.insert(words.end(), example.arguments.begin(), example.arguments.end());
    if (!restore.empty()) words.insert(words.end(), {"--restore", restore});
    program_ = std::make_unique<Running>(
        words, std::map<std::string, std::string>{{"HOME", home}, {"TMPDIR", temporary}},
        home + "/output");
  }

  pid_t pid() const { return program_->pid(); }
  bool has_ended() const { return program_->has_ended(); }
  std::string said() const { return program_->said(); }
  /// The exit code, or 128 + the signal that ended it.
  int wait() {
    auto code = program_->exit_code();
    EXPECT_TRUE(code) << "it hangs: " << said();
    took_ = std::chrono::steady_clock::now() - began_;
    return code.value_or(-1);
  }
  microseconds took() const { return std::chrono::duration_cast<microseconds>(took_); }

  /// Nothing of it is left but its results.
  void expect_nothing_left() const {
    EXPECT_TRUE(eventually([&] { return of_this_home().empty(); }))
        << "processes are left: " << testing::PrintToString(of_this_home()) << said();
    EXPECT_TRUE(eventually([&] { return entries(temporary_) == before_; }))
        << "files are left: " << testing::PrintToString(entries(temporary_)) << said();
  }

 private:
  static std::vector<std::string> entries(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path());
    std::sort(names.begin(), names.end());
    return names;
  }
  // Finds its processes by their environment, which no other process has.
  std::vector<pid_t> of_this_home() const {
    std::vector<pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      pid_t pid = std::atoi(entry.path().filename().c_str());
      if (pid <= 0 || !is_running(pid)) continue;
      std::ifstream in(entry.path() / "environ");
      std::string all{std::istreambuf_iterator<char>(in), {}};
      if (all.find("TMPDIR=" + temporary_) != std::string::npos) found.push_back(pid);
    }
    return found;
  }

  std::vector<std::string> before_;
  std::string temporary_;
  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::duration took_{};
  std::unique_ptr<Running> program_;
};

std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  std::vector<std::string> found;
  if (pattern.empty()) return found;
  std::regex regex(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it)
    found.push_back(it->str());
  return found;
}

// The program's own output, without Manta's lines, of which a restart makes more.
std::string without_progress(const std::string& text) {
  std::string kept;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with("manta: ")) kept += line + "\n";
  return kept;
}

class ExampleKills : public testing::Test {
 protected:
  void SetUp() override {
    Running make(
        {str(MANTA_EXAMPLES, "/make_taxi"), files_ / "trips.parquet", "40000", "2020", "4096"}, {},
        files_ / "output");
    ASSERT_EQ(make.exit_code(), 0) << make.said();
  }

  struct Undisturbed {
    std::vector<std::string> result;
    microseconds took{};
  };

  const Undisturbed& undisturbed(const Example& example) {
    auto& known = undisturbed_[example.name];
    if (known.took.count() > 0) return known;
    TemporaryFolder home, temporary;
    Start start(example, home.path(), temporary.path());
    EXPECT_EQ(start.wait(), 0) << start.said();
    start.expect_nothing_left();
    known = {matches(without_progress(start.said()), example.result), start.took()};
    EXPECT_FALSE(known.result.empty()) << example.name << " said: " << start.said();
    return known;
  }

  // Starts it, kills processes on the way, restores it if possible; returns how many were killed.
  int disturb(const Example& example, int most) {
    const Undisturbed& expected = undisturbed(example);
    TemporaryFolder home, temporary;
    std::string restore;
    int kills = 0;
    while (true) {
      Start start(example, home.path(), temporary.path(), restore);
      int wanted = std::min(most - kills, 1 + static_cast<int>(random_() % 2));
      Killed killed = kill_some(start, std::min(wanted, std::max(1, example.survives)),
                                expected.took / (restore.empty() ? 1 : 2));
      kills += killed.others + killed.driver;
      seen_["workers, readers and others killed"] += killed.others;
      int code = start.wait();
      std::string said = start.said();
      start.expect_nothing_left();
      auto runs = expect_nothing_lost(home.path(), said);
      if (killed.driver) {
        ++seen_["drivers killed"];
        EXPECT_TRUE(code == 128 + SIGKILL || code == 0) << said;
        if (code == 0 || !example.can_restore || runs.empty()) return kills;
        restore = runs.back();
        ++seen_["restored"];
        continue;
      }
      if (code != 0 && killed.others > example.survives) {  // it says why
        ++seen_["ended by an error"];
        EXPECT_EQ(code, 1) << said;
        EXPECT_THAT(said, testing::ContainsRegex("SIGKILL|was killed|ended|lost")) << example.name;
        return kills;
      }
      EXPECT_EQ(code, 0) << example.name << " after " << killed.others << " kills: " << said;
      ++seen_["went on"];
      auto result = matches(without_progress(said), example.result);
      if (result.size() > expected.result.size())  // output from before a restart is there twice
        result.erase(result.begin(), result.end() - static_cast<long>(expected.result.size()));
      EXPECT_EQ(result, expected.result)
          << example.name << " after " << killed.others << " kills: " << said;
      return kills;
    }
  }

  struct Killed {
    int others = 0;
    int driver = 0;
  };

  // Kills at random moments its workers, data readers or other processes; one time in four the
  // driver.
  Killed kill_some(Start& start, int count, microseconds within) {
    Killed killed;
    std::vector<microseconds> moments;
    for (int i = 0; i < count; ++i)
      moments.push_back(microseconds(random_() % static_cast<unsigned long>(within.count())));
    std::sort(moments.begin(), moments.end());
    microseconds slept{};
    for (microseconds moment : moments) {
      std::this_thread::sleep_for(moment - slept);
      slept = moment;
      if (start.has_ended()) break;
      auto processes = descendants(start.pid());
      if (random_() % 4 == 0 || processes.empty()) {
        if (::kill(start.pid(), SIGKILL) == 0) ++killed.driver;
        break;
      }
      pid_t victim = processes[random_() % processes.size()];
      if (::kill(victim, SIGKILL) == 0) ++killed.others;
      // The zygote: if the driver dies at the same time, the next run cleans up after both.
      if (victim == processes.front()) break;
    }
    return killed;
  }

  // Every report that the output calls committed is in its run's journal, each once and in order,
  // and every existing checkpoint is whole. Returns the folders of the runs, by age.
  std::vector<std::string> expect_nothing_lost(const std::string& home, const std::string& said) {
    std::vector<std::string> runs;
    std::error_code none;
    for (const auto& entry : fs::recursive_directory_iterator(home + "/manta_results", none)) {
      std::string name = entry.path().filename();
      if (name == "params.json" && fs::exists(entry.path().parent_path() / "journal.jsonl"))
        runs.push_back(entry.path().parent_path());
      bool is_committed = name.starts_with("checkpoint_") && name.find('.') == std::string::npos;
      if (!entry.is_directory() || !is_committed) continue;
      EXPECT_NO_THROW(Checkpoint::from_directory(entry.path())) << entry.path();
    }
    std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) {
      return fs::last_write_time(a + "/params.json") < fs::last_write_time(b + "/params.json");
    });
    size_t announced = 0, kept = 0;
    for (const std::string& line : matches(said, "manta: report [0-9]+:"))
      announced = std::max<size_t>(announced, std::stoul(line.substr(14)) + 1);
    for (const std::string& run : runs) {
      std::vector<train::JournalEvent> events;
      try {
        events = train::read_journal(run + "/journal.jsonl");
      } catch (const Error&) {
        continue;  // a trial's, which is in its experiment's journal
      }
      auto reports = train::history(events).reports();
      for (size_t i = 0; i < reports.size(); ++i)
        EXPECT_EQ(reports[i].index, static_cast<int64_t>(i)) << run;
      kept = std::max(kept, reports.size());
    }
    EXPECT_GE(kept, announced) << "reports are missing: " << said;
    return runs;
  }

  TemporaryFolder files_;
  std::mt19937 random_{static_cast<unsigned>(seed())};
  std::map<std::string, Undisturbed> undisturbed_;
  std::map<std::string, int> seen_;

  static int number_of(const char* variable, int otherwise) {
    const char* value = std::getenv(variable);
    return value ? std::atoi(value) : otherwise;
  }
  static int seed() { return number_of("MANTA_TEST_SEED", 1); }
};

// `make test-kills` asks for 200, and more of them.
TEST_F(ExampleKills, RandomKillsLoseNothing) {
  int wanted = number_of("MANTA_TEST_KILLS", 6);
  auto programs = examples(files_ / "trips.parquet");
  std::map<std::string, int> kills;
  int all = 0;
  // A program is run again only if kills come too late to hit it.
  for (int turn = 0; all < wanted && turn < 4 * wanted && !HasFailure(); ++turn) {
    // If there are few kills, they go to the programs that promise most.
    size_t among = wanted < 20 ? 3 : programs.size();
    const Example& example = programs[static_cast<size_t>(turn) % among];
    int now = disturb(example, std::min(3, wanted - all));
    kills[example.name] += now;
    all += now;
  }
  EXPECT_EQ(all, wanted);
  for (const auto& [name, count] : kills) std::cout << name << ": " << count << " kills\n";
  for (const auto& [what, count] : seen_) std::cout << what << ": " << count << "\n";
}

}  // namespace
}  // namespace manta
