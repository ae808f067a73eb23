#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "manta/train/tracker.h"

namespace manta {

struct MLflowLoggerOptions {
  /// The server: "http://host:5000", as `mlflow server` prints it. https is not supported.
  std::string tracking_uri = "http://127.0.0.1:5000";
  /// The experiment is made if it does not exist.
  std::string experiment_name = "Default";
  std::map<std::string, std::string> tags = {};  ///< Of the run in MLflow.
  /// At the end of the run, uploads its params.json, result.json and progress.csv, and as
  /// "checkpoint" the last checkpoint. The server must serve artifacts itself, which is its
  /// default.
  bool save_artifact = false;
  std::chrono::milliseconds timeout = std::chrono::seconds(10);  ///< Of each request.
  TrackerOptions tracker = {};
};

/// Reports the run to an MLflow server, over its REST API 2.0. train_loop_config becomes the run's
/// parameters, flattened ("optimizer/lr"); numbers among the metrics become metrics, whose step is
/// the report's index; train::text and histograms are left out. The end of the run sets its status.
///
/// A restored run goes on with its run in MLflow: <run folder>/mlflow.json keeps the run_id. It
/// also keeps a key, which the run has as its tag "manta.run_key": if making the run there is
/// interrupted, the tracker finds the run by this key and makes no second one. In names, '_'
/// replaces characters that MLflow does not take; if two names become the same, the second gets a
/// hash of its name, with a warning. MLflow cannot change a parameter: if one has changed when the
/// run is restored, it stays as it was there, and the new value becomes the tag "changed.<name>".
///
/// A server that is down, slow or answers nonsense costs the run nothing; see Tracker.
class MLflowLoggerCallback final : public Tracker {
 public:
  /// Throws Error(kInvalidArgument) if an option makes no sense. Asks the server nothing.
  explicit MLflowLoggerCallback(MLflowLoggerOptions options = {});

 protected:
  std::unique_ptr<TrackerSink> make_sink(const RunInfo& run) override;

 private:
  const MLflowLoggerOptions options_;
};

struct RegisterModelOptions {
  /// Default: the server in the run's mlflow.json, beside the checkpoint; else
  /// http://127.0.0.1:5000.
  std::string tracking_uri = {};
  /// The run in MLflow that the files are uploaded to. Default: that of mlflow.json; else a new
  /// one.
  std::string run_id = {};
  std::string experiment_name = "Default";  ///< Of a new run.
  std::string description = {};             ///< Of the version.
  std::map<std::string, std::string> tags = {};
  std::chrono::milliseconds timeout = std::chrono::seconds(30);  ///< Of each request.
};

struct RegisteredModel {
  std::string name;
  std::string version;  ///< "1", "2", ...
  std::string run_id;
  std::string source;  ///< Where the server has the files.
};

/// Uploads the checkpoint's files to an MLflow server, and registers them as a new version of the
/// model `name`, which is made if there is none. Blocks. Throws Error(kIo) or Error(kTimeout) if
/// the server cannot be reached, Error(kInvalidArgument) with the server's message if it refuses,
/// Error(kCorrupt) if its answer makes no sense.
RegisteredModel register_model(const Checkpoint& checkpoint, const std::string& name,
                               const RegisterModelOptions& options = {});

}  // namespace manta
