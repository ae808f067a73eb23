#include <algorithm>
#include <cmath>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/train/progress_internal.h"
#include "manta/tune/progress_internal.h"
#include "manta/tune/trials_internal.h"

namespace manta::tune {
namespace {

constexpr std::chrono::milliseconds kTableInterval{100};
constexpr std::chrono::seconds kPlainInterval{10};
// How long standard error may take for the last lines; then they are dropped.
constexpr std::chrono::seconds kLastWords{1};
constexpr std::chrono::milliseconds kLater{20};
constexpr size_t kMostLines = 16;  // of the table of running trials
constexpr size_t kMostBest = 5;    // of the summary

std::optional<double> last_value(const Trial& trial, const std::string& metric) {
  return trial.reports.empty() ? std::nullopt : number_in(trial.reports.back().metrics, metric);
}

// Values by their paths: {"params": {"eta": 0.3}} becomes {"params/eta": 0.3}.
Json settings_of(const Json& config) {
  Json settings = Json::object();
  if (!config.is_object()) return settings;
  const Json flat = config.flatten();
  for (const auto& [path, value] : flat.items()) {
    if (!path.empty()) settings[path.substr(1)] = value;  // an empty object has a value without one
  }
  return settings;
}

// Better trials come first; those without a value come last.
bool is_better(const Objective& objective, const Trial& a, const Trial& b) {
  auto x = last_value(a, objective.metric), y = last_value(b, objective.metric);
  bool has_x = x && !std::isnan(*x), has_y = y && !std::isnan(*y);
  if (!has_x || !has_y) return has_x && !has_y;
  return objective.maximize ? *x > *y : *x < *y;
}

}  // namespace

Progress::Progress(Objective objective, bool verbose, bool terminal)
    : objective_(std::move(objective)), verbose_(verbose), terminal_(terminal) {
  shown_ = Clock::now();
}

Progress::~Progress() {
  Deadline deadline = Deadline::after(kLastWords);
  while (!write_lines(pending_) && !deadline.passed()) std::this_thread::sleep_for(kLater);
}

void Progress::write() { write_lines(pending_); }

void Progress::say(const std::string& text) {
  if (!verbose_) return;
  pending_ += str("manta: ", text, "\n");
  write();
}

void Progress::learn_configs(const std::vector<Trial>& trials) {
  for (; learned_ < trials.size(); ++learned_) {
    const Json settings = settings_of(trials[learned_].config);
    for (const auto& [path, value] : settings.items()) {
      auto [setting, is_new] = settings_.try_emplace(path, Setting{value});
      setting->second.varies |= is_new ? learned_ > 0 : setting->second.value != value;
    }
  }
}

std::string Progress::describe(const Trial& trial) const {
  std::string text = trial_name(trial.number);
  Json shown = Json::object();
  const Json settings = settings_of(trial.config);
  for (const auto& [path, value] : settings.items()) {
    auto setting = settings_.find(path);
    if (learned_ < 2 || setting == settings_.end() || setting->second.varies) shown[path] = value;
  }
  if (!shown.empty()) text += " | " + train::summarize(shown, 60);
  if (trial.reports.empty()) return text;
  const Json& metrics = trial.reports.back().metrics;
  text += str(" | report ", trial.reports.size() - 1, ": ");
  auto found = metrics.find(objective_.metric);  // first, as it is what counts
  if (found == metrics.end()) return text + train::summarize(metrics, 60);
  Json others = metrics;
  others.erase(objective_.metric);
  std::string more = train::summarize(others, 40);
  return text + train::summarize({{objective_.metric, *found}}, 60) +
         (more.empty() ? "" : ", " + more);
}

const Trial* Progress::best(const std::vector<Trial>& trials) const {
  auto found = std::min_element(trials.begin(), trials.end(), [&](const Trial& a, const Trial& b) {
    return is_better(objective_, a, b);
  });
  bool has_value = found != trials.end() && last_value(*found, objective_.metric);
  return has_value ? &*found : nullptr;
}

std::string Progress::counts(const std::vector<Trial>& trials) const {
  size_t running = 0, done = 0, failed = 0, stopped = 0;
  for (const Trial& trial : trials) {
    running += trial.state == Trial::kRunning;
    if (trial.state != Trial::kDone) continue;
    ++done;
    failed += trial.outcome == RunOutcome::kFailed;
    stopped += trial.outcome == RunOutcome::kStopped;
  }
  std::string text = str(done, " trials done");
  if (stopped > 0) text += str(", of which ", stopped, " stopped early");
  if (failed > 0) text += str(", ", failed, " failed");
  if (running > 0) text += str("; ", running, " running");
  if (const Trial* leader = best(trials))
    text += str("; best: ", trial_name(leader->number), ", ", objective_.metric, " ",
                *last_value(*leader, objective_.metric));
  return text;
}

std::vector<std::string> Progress::table(const std::vector<Trial>& trials) {
  learn_configs(trials);
  std::vector<std::string> lines{counts(trials)};
  size_t left = 0;
  for (const Trial& trial : trials) {
    if (trial.state != Trial::kRunning) continue;
    if (lines.size() <= kMostLines) {
      lines.push_back("  " + describe(trial));
    } else {
      ++left;
    }
  }
  if (left > 0) lines.push_back(str("  and ", left, " more"));
  return lines;
}

Deadline Progress::next_update() const {
  if (!verbose_ || !changed_) return Deadline::never();
  auto interval = terminal_ ? std::chrono::nanoseconds(kTableInterval) : kPlainInterval;
  return Deadline::after(shown_ + interval - Clock::now());
}

void Progress::update(const std::vector<Trial>& trials) {
  if (!verbose_) return;
  changed_ = true;
  if (!next_update().passed()) return;
  shown_ = Clock::now();
  changed_ = false;
  if (!terminal_) return say(counts(trials));
  std::vector<std::string> lines = table(trials);
  while (lines_.size() < lines.size()) lines_.push_back(std::make_unique<StatusLine>());
  lines_.resize(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) lines_[i]->set(lines[i]);
}

void Progress::failed(const Trial& trial) {
  if (trial.error) say(str(trial_name(trial.number), " failed: ", trial.error->what()));
}

void Progress::summary(const std::vector<Trial>& trials, const std::string& folder) {
  lines_.clear();
  learn_configs(trials);
  say(counts(trials));
  std::vector<const Trial*> order;
  for (const Trial& trial : trials) order.push_back(&trial);
  if (!objective_.metric.empty())
    std::stable_sort(order.begin(), order.end(),
                     [&](const Trial* a, const Trial* b) { return is_better(objective_, *a, *b); });
  for (size_t i = 0; i < std::min(order.size(), kMostBest); ++i) say("  " + describe(*order[i]));
  if (order.size() > kMostBest) say(str("  and ", order.size() - kMostBest, " more"));
  say("results in " + folder);
}

}  // namespace manta::tune
