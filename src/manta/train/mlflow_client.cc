#include <fcntl.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "manta/base/json_input_internal.h"
#include "manta/base/log_internal.h"
#include "manta/io/checksum_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/mlflow_client_internal.h"

namespace manta::train {
namespace {

// MLflow's limits for a request, and for a parameter's value.
constexpr size_t kMetricsInRequest = 1000, kParametersInRequest = 100, kLongestParameter = 6000,
                 kLongestTag = 5000;
constexpr size_t kLongestKey = 250;
constexpr const char* kApi = "/api/2.0/mlflow/";
constexpr const char* kArtifacts = "mlflow-artifacts:";

Json mlflow_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

Json key_values(const std::map<std::string, std::string>& pairs, size_t longest) {
  Json all = Json::array();
  for (const auto& [key, value] : pairs)
    all.push_back({{"key", mlflow_key(key)}, {"value", value.substr(0, longest)}});
  return all;
}

// A field on the way, as text: {"run": {"info": {"run_id": ...
std::string text_at(const Json& json, const std::string& endpoint,
                    std::initializer_list<const char*> path) {
  const Json* at = &json;
  std::string names;
  for (const char* name : path) {
    names += str(names.empty() ? "" : ".", name);
    auto found = at->is_object() ? at->find(name) : at->end();
    if (!at->is_object() || found == at->end()) {
      throw Error(ErrorKind::kCorrupt,
                  str("MLflow's answer to ", endpoint, " has no ", names, ": ", short_text(json)));
    }
    at = &*found;
  }
  if (at->is_number_integer()) return at->dump();
  if (!at->is_string() || at->get<std::string>().empty())
    throw Error(ErrorKind::kCorrupt,
                str("MLflow's answer to ", endpoint, ": ", names, " is ", short_text(*at)));
  return at->get<std::string>();
}

MlflowRun run_in(const Json& json, const std::string& endpoint) {
  MlflowRun run;
  run.run_id = text_at(json, endpoint, {"run", "info", "run_id"});
  run.artifact_uri = text_at(json, endpoint, {"run", "info", "artifact_uri"});
  const Json& all = json["run"];
  Json parameters = all.value("data", Json::object()).value("params", Json::array());
  for (const Json& parameter : parameters) {
    if (!parameter.is_object() || !parameter.contains("key") || !parameter["key"].is_string())
      continue;
    // An empty value is valid; servers that write protobuf's JSON leave it out.
    Json value = parameter.value("value", Json(""));
    run.parameters[parameter["key"]] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  for (const Json& metric : all.value("data", Json::object()).value("metrics", Json::array())) {
    if (!metric.is_object() || !metric.contains("key") || !metric["key"].is_string()) continue;
    // A step of 0 is left out by servers that write protobuf's JSON.
    Json step = metric.value("step", Json(0));
    if (step.is_string()) step = std::atoll(step.get<std::string>().c_str());
    if (step.is_number_integer()) run.steps[metric["key"]] = step.get<int64_t>();
  }
  return run;
}

}  // namespace

// MLflow also refuses names that, as paths, could be written in another way.
std::string mlflow_key(const std::string& name) {
  std::string key, part;
  for (char c : name.substr(0, kLongestKey) + "/") {
    if (c != '/') {
      bool fine = std::isalnum(static_cast<unsigned char>(c)) ||
                  std::string_view("_-. :").find(c) != std::string_view::npos;
      part += fine ? c : '_';
      continue;
    }
    if (part == "..") part = "__";
    if (!part.empty() && part != ".") key += (key.empty() ? "" : "/") + part;
    part.clear();
  }
  return key.empty() ? "_" : key;
}

const std::string& MlflowKeys::of(const std::string& name) {
  auto [known, is_new] = keys_.try_emplace(name);
  std::string& key = known->second;
  if (!is_new) return key;
  key = mlflow_key(name);
  auto owner = names_.find(key);
  if (owner != names_.end()) {
    Checksum checksum;
    checksum.add(name.data(), name.size());
    std::string hash = "_" + checksum.hex();
    key = key.substr(0, kLongestKey - hash.size()) + hash;
    log_warning(str("MLflow has the same name for '", owner->second, "' and '", name,
                    "': the second is called '", key, "' there"));
  }
  names_[key] = name;
  return key;
}

MlflowClient::MlflowClient(std::string tracking_uri, std::chrono::milliseconds timeout)
    : tracking_uri_(std::move(tracking_uri)),
      timeout_(timeout),
      prefix_(http_address(tracking_uri_).path) {
  while (!prefix_.empty() && prefix_.back() == '/') prefix_.pop_back();
}

HttpClient::Answer MlflowClient::send(const HttpClient::Request& request, bool may_repeat) {
  // The server may have closed an idle connection: then tries once more, with a new one.
  bool reused = http_ != nullptr;
  for (bool first = true;; first = false) {
    try {
      if (!http_)
        http_ = std::make_unique<HttpClient>(tracking_uri_, HttpLimits{timeout_, size_t{64} << 20});
      HttpClient::Answer answer = http_->request(request);
      std::string_view connection = answer.field("Connection");
      if (connection == "close" || connection == "Close") http_.reset();
      return answer;
    } catch (const Error& error) {
      http_.reset();
      bool again = first && reused && error.kind() == ErrorKind::kIo && may_repeat;
      if (!again) throw;
    }
  }
}

MlflowClient::Reply MlflowClient::ask(const std::string& method, const std::string& endpoint,
                                      const Json& body) {
  std::string text = body.is_null() ? "" : to_text(body);
  HttpClient::Request request;
  request.method = method;
  request.path = prefix_ + kApi + endpoint;
  request.fields = "Content-Type: application/json\r\nAccept: application/json\r\n";
  request.body = text;
  // Each of these calls makes an object without a unique name, so the server could not recognise a
  // repeated call.
  bool makes_another = endpoint == "runs/create" || endpoint == "model-versions/create";
  HttpClient::Answer answer = send(request, !makes_another);
  Reply reply;
  reply.status = answer.status;
  std::string what = str("what ", tracking_uri_, " answers to ", endpoint, " (status ",
                         answer.status, ", expected JSON)");
  if (answer.status == 200) {
    reply.json = parse_json(answer.body, what);
    if (!reply.json.is_object())
      throw Error(ErrorKind::kCorrupt, str(what, " is no object: ", short_text(reply.json)));
    return reply;
  }
  reply.message = answer.body.substr(0, 300);
  try {
    Json json = parse_json(answer.body, what);
    if (json.is_object() && json.contains("error_code") && json["error_code"].is_string()) {
      reply.error_code = json["error_code"];
      if (json.contains("message") && json["message"].is_string())
        reply.message = json["message"].get<std::string>().substr(0, 1000);
    }
  } catch (const Error&) {  // not made by MLflow: the body says more
  }
  return reply;
}

void MlflowClient::refused(const std::string& endpoint, const Reply& reply) const {
  bool may_pass = reply.status >= 500 || reply.status == 429;
  throw Error(may_pass ? ErrorKind::kIo : ErrorKind::kInvalidArgument,
              str("MLflow at ", tracking_uri_, " refuses ", endpoint, " (status ", reply.status,
                  reply.error_code.empty() ? "" : " " + reply.error_code, "): ", reply.message));
}

Json MlflowClient::must(const std::string& method, const std::string& endpoint, const Json& body) {
  Reply reply = ask(method, endpoint, body);
  if (reply.status != 200) refused(endpoint, reply);
  return std::move(reply.json);
}

std::string MlflowClient::experiment(const std::string& name) {
  std::string get = "experiments/get-by-name?experiment_name=" + percent_encoded(name);
  for (bool first = true;; first = false) {
    Reply found = ask("GET", get);
    if (found.status == 200) return text_at(found.json, get, {"experiment", "experiment_id"});
    if (found.error_code != "RESOURCE_DOES_NOT_EXIST" || !first) refused(get, found);
    Reply made = ask("POST", "experiments/create", {{"name", name}});
    if (made.status == 200) return text_at(made.json, "experiments/create", {"experiment_id"});
    // Another process may have made it meanwhile.
    if (made.error_code != "RESOURCE_ALREADY_EXISTS") refused("experiments/create", made);
  }
}

MlflowRun MlflowClient::create_run(const std::string& experiment_id, const std::string& name,
                                   int64_t start_time_ms,
                                   const std::map<std::string, std::string>& tags) {
  Json body = {{"experiment_id", experiment_id},
               {"run_name", name},
               {"start_time", start_time_ms},
               {"tags", key_values(tags, kLongestTag)}};
  return run_in(must("POST", "runs/create", body), "runs/create");
}

std::optional<MlflowRun> MlflowClient::find_run_with_tag(const std::string& experiment_id,
                                                         const std::string& tag,
                                                         const std::string& value) {
  Json found = must("POST", "runs/search",
                    {{"experiment_ids", {experiment_id}},
                     {"filter", str("tags.`", tag, "` = '", value, "'")},
                     {"run_view_type", "ACTIVE_ONLY"},
                     {"max_results", 1}});
  Json runs = found.value("runs", Json::array());
  if (!runs.is_array() || runs.empty()) return std::nullopt;
  return run_in({{"run", runs[0]}}, "runs/search");
}

std::optional<MlflowRun> MlflowClient::find_run(const std::string& run_id) {
  std::string get = "runs/get?run_id=" + percent_encoded(run_id);
  Reply found = ask("GET", get);
  if (found.error_code == "RESOURCE_DOES_NOT_EXIST") return std::nullopt;
  if (found.status != 200) refused(get, found);
  MlflowRun run = run_in(found.json, get);
  Json info = found.json["run"]["info"];
  if (info.value("lifecycle_stage", Json("active")) == "deleted") return std::nullopt;
  return run;
}

void MlflowClient::update_run(const std::string& run_id, const std::string& status,
                              int64_t end_time_ms) {
  Json body = {{"run_id", run_id}, {"status", status}};
  if (end_time_ms != 0) body["end_time"] = end_time_ms;
  must("POST", "runs/update", body);
}

void MlflowClient::log_metrics(const std::string& run_id,
                               const std::vector<MlflowMetric>& metrics) {
  for (size_t at = 0; at < metrics.size(); at += kMetricsInRequest) {
    Json part = Json::array();
    for (size_t i = at; i < std::min(metrics.size(), at + kMetricsInRequest); ++i) {
      const MlflowMetric& metric = metrics[i];
      part.push_back({{"key", mlflow_key(metric.key)},
                      {"value", mlflow_number(metric.value)},
                      {"timestamp", metric.timestamp_ms},
                      {"step", metric.step}});
    }
    must("POST", "runs/log-batch", {{"run_id", run_id}, {"metrics", std::move(part)}});
  }
}

void MlflowClient::log_parameters(const std::string& run_id,
                                  const std::map<std::string, std::string>& parameters) {
  Json all = key_values(parameters, kLongestParameter);
  for (size_t at = 0; at < all.size(); at += kParametersInRequest) {
    auto begin = all.begin() + static_cast<ptrdiff_t>(at);
    auto end =
        all.begin() + static_cast<ptrdiff_t>(std::min(all.size(), at + kParametersInRequest));
    must("POST", "runs/log-batch",
         {{"run_id", run_id}, {"params", Json(Json::array_t(begin, end))}});
  }
}

void MlflowClient::set_tags(const std::string& run_id,
                            const std::map<std::string, std::string>& tags) {
  Json all = key_values(tags, kLongestTag);
  for (const Json& tag : all) {
    must("POST", "runs/set-tag",
         {{"run_id", run_id}, {"key", tag.at("key")}, {"value", tag.at("value")}});
  }
}

void MlflowClient::put(const MlflowRun& run, const std::string& path, HttpClient::Request request) {
  if (run.artifact_uri.rfind(kArtifacts, 0) != 0) {
    throw Error(
        ErrorKind::kInvalidArgument,
        str("MLflow at ", tracking_uri_, " keeps artifacts in '", run.artifact_uri,
            "', which it does not serve itself: start `mlflow server` with --serve-artifacts "
            "(its default) and --artifacts-destination"));
  }
  std::string folder = run.artifact_uri.substr(std::string_view(kArtifacts).size());
  if (folder.rfind("//", 0) == 0)
    folder = folder.substr(std::min(folder.find('/', 2), folder.size()));
  std::string target;
  for (const std::filesystem::path& part : std::filesystem::path(folder + "/" + path)) {
    if (part != "/" && !part.empty()) target += "/" + percent_encoded(part.string());
  }
  request.method = "PUT";
  request.path = prefix_ + "/api/2.0/mlflow-artifacts/artifacts" + target;
  request.fields = "Content-Type: application/octet-stream\r\n";
  HttpClient::Answer answer = send(request, request.file < 0);
  if (answer.status == 200) return;
  Reply reply;
  reply.status = answer.status;
  reply.message = answer.body.substr(0, 300);
  refused("the artifact '" + path + "'", reply);
}

void MlflowClient::upload(const MlflowRun& run, const std::string& path, const std::string& file) {
  std::filesystem::path whole = std::filesystem::absolute(file);
  UniqueFd fd = open_file(whole.parent_path(), whole.filename(), O_RDONLY);
  HttpClient::Request request;
  request.file = fd.get();
  request.file_size = check_regular(fd.get(), file);
  put(run, path, request);
}

void MlflowClient::upload_text(const MlflowRun& run, const std::string& path,
                               const std::string& text) {
  HttpClient::Request request;
  request.body = text;
  put(run, path, request);
}

void MlflowClient::create_model(const std::string& name) {
  Reply made = ask("POST", "registered-models/create", {{"name", name}});
  if (made.status != 200 && made.error_code != "RESOURCE_ALREADY_EXISTS")
    refused("registered-models/create", made);
}

std::string MlflowClient::create_version(const std::string& model, const std::string& source,
                                         const std::string& run_id, const std::string& description,
                                         const std::map<std::string, std::string>& tags) {
  Json body = {{"name", model},
               {"source", source},
               {"run_id", run_id},
               {"description", description},
               {"tags", key_values(tags, kLongestTag)}};
  return text_at(must("POST", "model-versions/create", body), "model-versions/create",
                 {"model_version", "version"});
}

}  // namespace manta::train
