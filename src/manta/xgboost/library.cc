#include "manta/base/log_internal.h"
#include "manta/xgboost/c_api_internal.h"
#include "manta/xgboost/library_internal.h"

namespace manta::xgboost {
namespace {

thread_local std::vector<std::string>* collected = nullptr;

// "[21:48:25] WARNING: /path/learner.cc:790: text" without its beginning.
std::string without_place(std::string message) {
  if (!message.starts_with('[')) return message;
  message = message.substr(std::min(message.find("] ") + 2, message.size()));
  for (const char* level : {"WARNING: ", "INFO: ", "DEBUG: "}) {
    if (message.starts_with(level)) message = message.substr(std::string_view(level).size());
  }
  auto place = message.find(": ");
  bool has_place = place != std::string::npos && message.find(' ') == place + 1;
  return has_place ? message.substr(place + 2) : message;
}

std::string trimmed(std::string text) {
  auto first = text.find_first_not_of(" \n\t");
  auto last = text.find_last_not_of(" \n\t");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

void on_message(const char* text) {
  std::string message = text;
  bool is_warning = message.find("WARNING: ") != std::string::npos;
  message = trimmed(without_place(message));
  if (collected && is_warning) {
    collected->push_back(std::move(message));
  } else if (is_warning) {
    log_warning("xgboost: " + message);
  } else {
    log_info("xgboost: " + message);
  }
}

// "[21:48:25] /path/objective.cc:27: text\nStack trace:\n..." without its beginning and without the
// stack.
std::string text_of(const std::string& error) {
  auto text = error.substr(0, error.find("\nStack trace:"));
  return trimmed(without_place(text));
}

bool is_about_connections(const std::string& text) {
  for (const char* word : {"collective", "socket", "Socket", "rabit", "tracker", "allreduce"}) {
    if (text.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

void check_call(int result, const std::string& doing) {
  if (result == 0) return;
  std::string error = XGBGetLastError();
  throw Error(is_about_connections(error) ? ErrorKind::kWorkerLost : ErrorKind::kInvalidArgument,
              str(doing, ": ", text_of(error)));
}

CollectWarnings::CollectWarnings() : outer_(collected) {
  collected = &texts_;
  log_library_messages();
}

CollectWarnings::~CollectWarnings() { collected = outer_; }

void log_library_messages() { XGBRegisterLogCallback(&on_message); }

void FreeMatrix::operator()(void* matrix) const { XGDMatrixFree(matrix); }
void FreeBooster::operator()(void* booster) const { XGBoosterFree(booster); }

std::string array_interface(const float* data, int64_t rows, int64_t columns) {
  std::string text = R"({"data":[)";
  text.reserve(128);
  text += std::to_string(reinterpret_cast<uintptr_t>(data));
  text += R"(,true],"shape":[)";
  text += std::to_string(rows);
  if (columns > 0) text += ',' + std::to_string(columns);
  return text += R"(],"typestr":"<f4","version":3})";
}

}  // namespace manta::xgboost
