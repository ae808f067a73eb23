#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/json.h"
#include "manta/base/names_internal.h"
#include "manta/io/http_client_internal.h"

namespace manta::train {

/// A number of a run in MLflow, at a step.
struct MlflowMetric {
  std::string key;
  double value = 0;
  int64_t timestamp_ms = 0;
  int64_t step = 0;
};

struct MlflowRun {
  std::string run_id;
  std::string artifact_uri;
  std::map<std::string, std::string> parameters;
  std::map<std::string, int64_t> steps;  ///< The last step of each metric.
};

/// The part of MLflow's REST API that we use. Throws Error(kIo) or Error(kTimeout) if the server
/// cannot be reached or fails (5xx), so that a retry may help; Error(kInvalidArgument) with the
/// server's text if it refuses; Error(kCorrupt) if its answer makes no sense.
class MlflowClient {
 public:
  /// Throws Error(kInvalidArgument) if the address is not valid. Connects when it is needed.
  MlflowClient(std::string tracking_uri, std::chrono::milliseconds timeout);

  /// The experiment's id. Makes the experiment if there is none.
  std::string experiment(const std::string& name);
  /// It does not retry if the connection breaks off: the server may have made the run.
  MlflowRun create_run(const std::string& experiment_id, const std::string& name,
                       int64_t start_time_ms, const std::map<std::string, std::string>& tags);
  /// Nothing if there is no such run, or it was deleted.
  std::optional<MlflowRun> find_run(const std::string& run_id);
  /// Finds a run by a tag. Neither tag nor value may have a quote in it.
  std::optional<MlflowRun> find_run_with_tag(const std::string& experiment_id,
                                             const std::string& tag, const std::string& value);
  /// Status "RUNNING", "FINISHED", "FAILED", "KILLED", "SCHEDULED"; an end time unless it is 0.
  void update_run(const std::string& run_id, const std::string& status, int64_t end_time_ms);
  /// Makes as many requests as it takes.
  void log_metrics(const std::string& run_id, const std::vector<MlflowMetric>& metrics);
  void log_parameters(const std::string& run_id,
                      const std::map<std::string, std::string>& parameters);
  void set_tags(const std::string& run_id, const std::map<std::string, std::string>& tags);
  /// Uploads a file to `path` among the run's artifacts.
  void upload(const MlflowRun& run, const std::string& path, const std::string& file);
  void upload_text(const MlflowRun& run, const std::string& path, const std::string& text);
  /// Success if it exists.
  void create_model(const std::string& name);
  /// Makes a version of the model, and returns its number.
  std::string create_version(const std::string& model, const std::string& source,
                             const std::string& run_id, const std::string& description,
                             const std::map<std::string, std::string>& tags);

 private:
  struct Reply {
    int status = 0;
    std::string error_code;  // MLflow's, if the status is not 200
    std::string message;
    Json json;
  };
  Reply ask(const std::string& method, const std::string& endpoint, const Json& body = {});
  Json must(const std::string& method, const std::string& endpoint, const Json& body = {});
  HttpClient::Answer send(const HttpClient::Request& request, bool may_repeat);
  void put(const MlflowRun& run, const std::string& path, HttpClient::Request request);
  [[noreturn]] void refused(const std::string& endpoint, const Reply& reply) const;

  const std::string tracking_uri_;
  const std::chrono::milliseconds timeout_;
  std::string prefix_;  // of paths, if the server is not at the root of its host
  std::unique_ptr<HttpClient> http_;
};

/// A name that MLflow takes for metrics, parameters and tags: at most 250 characters, with '_' for
/// characters that it does not take.
std::string mlflow_key(const std::string& name);

/// The keys of several names, no two of which get the same key: "a@1" is "a_1", and a later "a#1"
/// is "a_1_" with a hash of the name. The first name gets the plain key, so a restored run must
/// first give it the old names.
class MlflowKeys {
 public:
  const std::string& of(const std::string& name);

 private:
  std::map<std::string, std::string> keys_, names_;  // by name, by key
};

}  // namespace manta::train
