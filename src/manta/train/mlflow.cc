#include "manta/train/mlflow.h"

#include <cctype>
#include <cmath>
#include <filesystem>
#include <optional>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/base/random_token_internal.h"
#include "manta/io/checksum_internal.h"
#include "manta/io/remote_files_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/metric_internal.h"
#include "manta/train/mlflow_client_internal.h"

namespace manta {
namespace train {
namespace {

constexpr const char* kMlflowFile = "/mlflow.json";
// A run's tag with the key from its mlflow.json.
constexpr const char* kKeyTag = "manta.run_key";

int64_t milliseconds_of(double seconds) { return std::llround(seconds * 1000); }

std::string random_key() {
  Checksum checksum;
  std::string token = random_token();
  checksum.add(token.data(), token.size());
  return checksum.hex();
}

struct MlflowNote {
  std::string tracking_uri;
  std::string run_id;  // empty: it was about to be made
  std::string key;     // by which an existing run is found; empty in old files
};

// The content of <run folder>/mlflow.json, also at an address; nothing if there is none.
std::optional<MlflowNote> read_note(const std::string& run_folder) {
  try {
    constexpr JsonLimits kLimits{.bytes = 64 << 10};
    auto address = remote_address(run_folder);
    std::string path = address ? address->child(kMlflowFile + 1).text() : run_folder + kMlflowFile;
    Json json = address ? parse_json(read_remote(address->child(kMlflowFile + 1), kLimits.bytes),
                                     str("'", path, "'"), kLimits)
                        : read_json(path, kLimits);
    JsonFields fields(json, str("'", path, "'"));
    MlflowNote note{fields.text("tracking_uri"), "", ""};
    if (fields.has("run_id")) note.run_id = fields.text("run_id");
    if (fields.has("key")) note.key = fields.text("key");
    for (char c : note.key)
      if (!std::isxdigit(static_cast<unsigned char>(c))) fields.fail("key", "hexadecimal digits");
    return note;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kNotFound) return std::nullopt;
    throw;
  }
}

const char* status_of(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::kFinished:
    case RunOutcome::kStopped:
      return "FINISHED";
    case RunOutcome::kPaused:
      return "SCHEDULED";  // it goes on later
    case RunOutcome::kInterrupted:
      return "KILLED";
    case RunOutcome::kFailed:
      break;
  }
  return "FAILED";
}

std::string parameter_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : to_text(value);
}

void upload_checkpoint(MlflowClient& client, const MlflowRun& run, const Checkpoint& checkpoint,
                       const std::string& folder) {
  for (const std::string& name : checkpoint.files())
    client.upload(run, folder + "/" + name, checkpoint.file(name));
  client.upload(run, folder + "/manifest.json", checkpoint.path() + "/manifest.json");
}

class MlflowSink final : public TrackerSink {
 public:
  explicit MlflowSink(MLflowLoggerOptions options)
      : options_(std::move(options)), client_(options_.tracking_uri, options_.timeout) {}

  // All calls may be made again with the same events: MLflow stores equal ones once.
  void take(const std::vector<TrackerEvent>& events) override {
    for (const TrackerEvent& event : events) {
      if (auto* start = std::get_if<TrackerEvent::RunStart>(&event.what)) {
        start_ = *start;
        for (const ReportRecord& report : start_->reports) {
          for_each_metric(report.metrics, [&](const std::string& name, const Json& metric) {
            if (number_of(metric)) metric_keys_.of(name);
          });
        }
        start_->reports.clear();
      }
    }
    begin();
    std::vector<MlflowMetric> metrics;
    auto steps = run_->steps;
    for (const TrackerEvent& event : events) {
      if (auto* report = std::get_if<ReportRecord>(&event.what)) add(*report, steps, metrics);
    }
    client_.log_metrics(run_->run_id, metrics);
    run_->steps = std::move(steps);
    for (const TrackerEvent& event : events) {
      if (auto* failure = std::get_if<RunFailure>(&event.what)) {
        client_.set_tags(run_->run_id, {{"failure", failure->who + ": " + failure->message}});
      } else if (auto* ended = std::get_if<TrackerEvent::RunEnd>(&event.what)) {
        end(*ended);
      }
    }
  }

 private:
  // MLflow would keep both values of a step. So a report that is made again after a restart is left
  // out.
  void add(const ReportRecord& report, std::map<std::string, int64_t>& steps,
           std::vector<MlflowMetric>& metrics) {
    for_each_metric(report.metrics, [&](const std::string& name, const Json& metric) {
      auto number = number_of(metric);
      if (!number) return;
      const std::string& key = metric_keys_.of(name);
      auto [last, is_new] = steps.try_emplace(key, report.index);
      if (!is_new && last->second >= report.index) return;
      last->second = report.index;
      metrics.push_back({key, *number, milliseconds_of(report.time), report.index});
    });
  }

  // Finds the earlier run in MLflow or makes one, and sets its parameters.
  void begin() {
    if (run_) return;
    if (!start_) throw Error(ErrorKind::kCorrupt, "the beginning of the run was lost");
    MlflowRun run = find_or_create();
    std::map<std::string, std::string> added, changed;
    MlflowKeys keys;
    auto parameters = flat_config(start_->train_loop_config);
    parameters["num_workers"] = start_->scaling_config.num_workers;
    for (const auto& [name, value] : parameters) {
      std::string text = parameter_text(value);
      const std::string& key = keys.of(name);
      auto known = run.parameters.find(key);
      if (known == run.parameters.end()) {
        added[key] = text;
      } else if (known->second != text) {
        changed["changed." + key] = text;
      }
    }
    client_.log_parameters(run.run_id, added);
    client_.set_tags(run.run_id, changed);
    run_ = run;
  }

  // Makes the run only once, wherever a connection breaks off: the run's key is on disk before
  // MLflow is asked to make it, and an existing run is found by that key.
  MlflowRun find_or_create() {
    std::optional<MlflowRun> run;
    auto note = read_note(start_->path);
    if (note && note->tracking_uri != options_.tracking_uri) note.reset();
    if (note && !note->run_id.empty()) {
      run = client_.find_run(note->run_id);
      if (!run) note.reset();  // deleted there
    }
    if (run) {
      client_.update_run(run->run_id, "RUNNING", 0);
      return *run;
    }
    std::string key = note && !note->key.empty() ? note->key : random_key();
    if (!note) write_note({options_.tracking_uri, "", key});
    std::string experiment = client_.experiment(options_.experiment_name);
    if (note) run = client_.find_run_with_tag(experiment, kKeyTag, key);
    if (!run) {
      auto tags = options_.tags;
      tags["manta.run_folder"] = start_->path;
      tags[kKeyTag] = key;
      run = client_.create_run(experiment, start_->name, milliseconds_of(start_->time), tags);
    }
    write_note({options_.tracking_uri, run->run_id, key});
    return *run;
  }

  void write_note(const MlflowNote& note) {
    Json json = {{"tracking_uri", note.tracking_uri},
                 {"experiment_name", options_.experiment_name},
                 {"key", note.key}};
    if (!note.run_id.empty()) json["run_id"] = note.run_id;
    replace_file(start_->path + kMlflowFile, to_text(json, 1) + "\n");
  }

  void end(const TrackerEvent::RunEnd& ended) {
    if (options_.save_artifact) {
      for (const char* name : {"params.json", "result.json", "progress.csv"})
        client_.upload(*run_, name, start_->path + "/" + name);
      if (ended.checkpoint) upload_checkpoint(client_, *run_, ended.checkpoint, "checkpoint");
    }
    bool over = ended.outcome != RunOutcome::kPaused;
    client_.update_run(run_->run_id, status_of(ended.outcome),
                       over ? milliseconds_of(ended.time) : 0);
  }

  const MLflowLoggerOptions options_;
  MlflowClient client_;
  std::optional<TrackerEvent::RunStart> start_;
  std::optional<MlflowRun> run_;
  MlflowKeys metric_keys_;
};

void check_timeout(std::chrono::milliseconds timeout, const char* whose) {
  if (timeout.count() < 1)
    throw Error(ErrorKind::kInvalidArgument,
                str(whose, ": timeout must be positive (was ", timeout.count(), " ms)"));
}

constexpr std::chrono::minutes kUploadTime{10};

}  // namespace
}  // namespace train

MLflowLoggerCallback::MLflowLoggerCallback(MLflowLoggerOptions options)
    : Tracker("MLflowLoggerCallback", options.tracker,
              options.save_artifact ? train::kUploadTime : std::chrono::minutes(0)),
      options_(std::move(options)) {
  http_address(options_.tracking_uri);
  train::check_timeout(options_.timeout, "MLflowLoggerCallback");
  if (options_.experiment_name.empty())
    throw Error(ErrorKind::kInvalidArgument, "MLflowLoggerCallback: experiment_name is empty");
}

std::unique_ptr<TrackerSink> MLflowLoggerCallback::make_sink(const RunInfo&) {
  return std::make_unique<train::MlflowSink>(options_);
}

RegisteredModel register_model(const Checkpoint& checkpoint, const std::string& name,
                               const RegisterModelOptions& options) {
  using namespace train;
  if (!checkpoint)
    throw Error(ErrorKind::kInvalidArgument, "register_model: there is no checkpoint");
  if (name.empty()) throw Error(ErrorKind::kInvalidArgument, "register_model: the name is empty");
  check_timeout(options.timeout, "register_model");
  auto address = remote_address(checkpoint.uri());
  std::filesystem::path place = address ? address->path : checkpoint.path();
  auto note = read_note(address ? address->with_path(place.parent_path()).text()
                                : place.parent_path().string());
  std::string uri = options.tracking_uri;
  if (uri.empty()) uri = note ? note->tracking_uri : MLflowLoggerOptions().tracking_uri;
  std::string run_id = options.run_id;
  if (run_id.empty() && note && note->tracking_uri == uri) run_id = note->run_id;
  MlflowClient client(uri, options.timeout);
  std::optional<MlflowRun> run;
  if (!run_id.empty()) run = client.find_run(run_id);
  if (!run && !options.run_id.empty())
    throw Error(ErrorKind::kNotFound,
                str("register_model: MLflow at ", uri, " has no run '", options.run_id, "'"));
  bool is_new = !run;
  if (is_new) {
    auto now = std::chrono::system_clock::now().time_since_epoch();
    run = client.create_run(client.experiment(options.experiment_name), name,
                            std::chrono::duration_cast<std::chrono::milliseconds>(now).count(), {});
  }
  client.create_model(name);
  std::string folder = str("models/", mlflow_key(name), "/", place.filename().string());
  upload_checkpoint(client, *run, checkpoint, folder);
  // The file that MLflow expects next to a model.
  client.upload_text(
      *run, folder + "/MLmodel",
      str("run_id: ", run->run_id, "\nflavors:\n  manta:\n    manifest: manifest.json\n"));
  RegisteredModel model{name, "", run->run_id, run->artifact_uri + "/" + folder};
  model.version =
      client.create_version(name, model.source, model.run_id, options.description, options.tags);
  if (is_new) client.update_run(run->run_id, "FINISHED", 0);
  return model;
}

}  // namespace manta
