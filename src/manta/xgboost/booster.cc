#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <sstream>

#include "manta/base/json_input_internal.h"
#include "manta/base/log_internal.h"
#include "manta/xgboost/booster_internal.h"
#include "manta/xgboost/c_api_internal.h"
#include "manta/xgboost/ubjson_internal.h"

namespace manta::xgboost {
namespace {

std::string parameter_text(const std::string& name, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  if (value.is_number() || value.is_array()) return value.dump();
  throw Error(ErrorKind::kInvalidArgument,
              str("params: '", name, "' must be a text, a number, a boolean or a list (was ",
                  short_text(value), ")"));
}

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  if (!file) throw_errno("reading '" + path + "'");
  return bytes.str();
}

// NaN and infinities become null, as in JSON.
Json number_of(const std::string& text) {
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? Json(number) : Json();
}

}  // namespace

std::vector<std::pair<std::string, std::string>> parameter_texts(const Json& params) {
  if (!params.is_object()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("params must be an object such as {{\"objective\", \"binary:logistic\"}}; "
                    "received ",
                    short_text(params)));
  }
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, value] : params.items()) {
    if (name == "eval_metric" && value.is_array()) {
      for (const Json& metric : value) texts.emplace_back(name, parameter_text(name, metric));
    } else {
      texts.emplace_back(name, parameter_text(name, value));
    }
  }
  return texts;
}

void check_parameters(const Json& params) {
  CollectWarnings warnings;
  Booster booster;
  booster.set("validate_parameters", "1");
  booster.set("num_feature", "1");  // any number: there is no data yet
  booster.set(params);
  uint64_t size = 0;
  const char* config = nullptr;
  check_call(XGBoosterSaveJsonConfig(booster.handle(), &size, &config),
             "params are " + params.dump());
  for (const auto& text : warnings.texts()) {
    if (text.find("are not used") == std::string::npos) {
      log_warning("xgboost: " + text);
      continue;
    }
    throw Error(ErrorKind::kInvalidArgument,
                str("params: ", text.substr(0, text.find('\n')),
                    " Remove them, or set {\"validate_parameters\", false} to train all the same"));
  }
}

Booster::Booster(const std::vector<void*>& matrices) {
  void* handle = nullptr;
  check_call(XGBoosterCreate(matrices.data(), matrices.size(), &handle), "making a model");
  handle_.reset(handle);
}

Booster Booster::load(const std::string& path, const std::vector<void*>& matrices) {
  std::string bytes = read_whole(path);
  if (std::string damage = ubjson_damage(bytes); !damage.empty()) {
    throw Error(ErrorKind::kCorrupt, str("'", path, "' is not a model of XGBoost: ", damage));
  }
  Booster booster(matrices);
  CollectWarnings warnings;  // drops warnings about other versions: what counts is the model
  try {
    check_call(XGBoosterLoadModelFromBuffer(booster.handle(), bytes.data(), bytes.size()),
               str("'", path, "' is not a model of XGBoost, or is damaged"));
  } catch (const Error& error) {
    throw Error(ErrorKind::kCorrupt, error.what());
  }
  return booster;
}

void Booster::set(const std::string& name, const std::string& value) {
  check_call(XGBoosterSetParam(handle(), name.c_str(), value.c_str()), "params");
}

void Booster::set(const Json& params) {
  for (const auto& [name, value] : parameter_texts(params)) set(name, value);
}

void Booster::restart_random_choices() {
  uint64_t size = 0;
  const char* config = nullptr;
  check_call(XGBoosterSaveJsonConfig(handle(), &size, &config), "reading a model's configuration");
  check_call(XGBoosterLoadJsonConfig(handle(), std::string(config, size).c_str()),
             "configuring a model");
}

void Booster::update(void* matrix) {
  check_call(XGBoosterUpdateOneIter(handle(), rounds(), matrix), str("boosting, round ", rounds()));
}

Json Booster::evaluate(const std::vector<std::pair<std::string, void*>>& matrices) {
  std::vector<void*> handles;
  std::vector<const char*> names;
  for (const auto& [name, matrix] : matrices) {
    handles.push_back(matrix);
    names.push_back(name.c_str());
  }
  const char* result = nullptr;
  check_call(XGBoosterEvalOneIter(handle(), rounds() - 1, handles.data(), names.data(),
                                  handles.size(), &result),
             "evaluating the model");
  // "[3]\ttrain-logloss:0.5\tvalid-logloss:0.6"
  Json metrics = Json::object();
  std::istringstream parts{result};
  std::string part;
  while (std::getline(parts, part, '\t')) {
    auto colon = part.rfind(':');
    if (colon != std::string::npos)
      metrics[part.substr(0, colon)] = number_of(part.substr(colon + 1));
  }
  return metrics;
}

int Booster::rounds() const {
  int rounds = 0;
  check_call(XGBoosterBoostedRounds(handle(), &rounds), "counting a model's rounds");
  return rounds;
}

std::string Booster::save() const {
  uint64_t size = 0;
  const char* bytes = nullptr;
  check_call(XGBoosterSaveModelToBuffer(handle(), R"({"format": "ubj"})", &size, &bytes),
             "saving a model");
  return std::string(bytes, size);
}

void Booster::set_feature_names(const std::vector<std::string>& names) {
  std::vector<const char*> texts;
  for (const auto& name : names) texts.push_back(name.c_str());
  check_call(XGBoosterSetStrFeatureInfo(handle(), "feature_name", texts.data(), texts.size()),
             "naming a model's features");
}

std::vector<std::string> Booster::feature_names() const {
  uint64_t size = 0;
  const char** names = nullptr;
  check_call(XGBoosterGetStrFeatureInfo(handle(), "feature_name", &size, &names),
             "reading the names of a model's features");
  return std::vector<std::string>(names, names + size);
}

void Booster::set_attribute(const std::string& key, const std::string& value) {
  check_call(XGBoosterSetAttr(handle(), key.c_str(), value.c_str()), "naming a model's label");
}

std::string Booster::attribute(const std::string& key) const {
  const char* value = nullptr;
  int found = 0;
  check_call(XGBoosterGetAttr(handle(), key.c_str(), &value, &found), "reading a model");
  return found ? value : "";
}

std::string vector_widths(const std::vector<FeatureColumn>& columns) {
  Json widths = Json::object();
  for (const auto& [name, width] : columns) {
    if (width > 0) widths[name] = width;
  }
  return widths.empty() ? "" : widths.dump();
}

std::vector<FeatureColumn> feature_columns(const Booster& booster, const std::string& path) {
  auto names = booster.feature_names();
  std::string text = booster.attribute(kVectorsAttribute);
  std::string what = str("the model in '", path, "', attribute ", kVectorsAttribute);
  Json widths = text.empty() ? Json::object() : parse_json(text, what);
  JsonFields fields(widths, JsonDocument(what));
  std::map<std::string, FeatureColumn> by_first;  // feature
  for (const auto& [name, width] : widths.items()) {
    by_first[name + "_0"] = {name, fields.integer(name, 1, static_cast<int64_t>(names.size()))};
  }
  std::vector<FeatureColumn> columns;
  for (size_t i = 0; i < names.size();) {
    auto vector = by_first.find(names[i]);
    columns.push_back(vector == by_first.end() ? FeatureColumn{names[i], 0} : vector->second);
    i += static_cast<size_t>(std::max<int64_t>(columns.back().width, 1));
  }
  if (feature_names(columns) != names) {
    throw Error(ErrorKind::kCorrupt, str(what, " is ", text, ", which does not fit its features"));
  }
  return columns;
}

}  // namespace manta::xgboost
