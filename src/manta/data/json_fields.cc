#include "manta/base/error.h"
#include "manta/data/json_fields_internal.h"

namespace manta::data {
namespace {

constexpr size_t kLongestValue = 60;

bool is_integer_within(const Json& json, int64_t smallest, int64_t largest) {
  // As an int64, the library would let a larger number wrap around.
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return false;
  }
  return json.is_number_integer() && json.get<int64_t>() >= smallest &&
         json.get<int64_t>() <= largest;
}

}  // namespace

std::string shorten(const Json& json) {
  if (json.is_structured()) return json.is_array() ? "a list" : "an object";
  auto text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongestValue) text = text.substr(0, kLongestValue) + "...";
  return text;
}

JsonFields::JsonFields(const Json& json, std::string what) : json_(json), what_(std::move(what)) {
  if (!json.is_object()) {
    throw Error(ErrorKind::kInvalidArgument, str("not a plan as Dataset::to_json writes it: ",
                                                 what_, " is ", shorten(json), ", not an object"));
  }
}

void JsonFields::fail(const char* name, const std::string& expected) const {
  auto found = json_.find(name);
  throw Error(ErrorKind::kInvalidArgument,
              str("not a plan as Dataset::to_json writes it: in ", what_, ", '", name, "' is ",
                  found == json_.end() ? "missing" : shorten(*found), ", not ", expected));
}

const Json& JsonFields::at(const char* name) const {
  auto found = json_.find(name);
  if (found == json_.end()) fail(name, "there");
  return *found;
}

std::string JsonFields::text(const char* name) const {
  auto found = json_.find(name);
  if (found == json_.end() || !found->is_string()) fail(name, "a text");
  return found->get<std::string>();
}

bool JsonFields::flag(const char* name) const {
  auto found = json_.find(name);
  if (found == json_.end() || !found->is_boolean()) fail(name, "true or false");
  return found->get<bool>();
}

int64_t JsonFields::integer(const char* name, int64_t smallest, int64_t largest) const {
  auto found = json_.find(name);
  if (found == json_.end() || !is_integer_within(*found, smallest, largest)) {
    fail(name, str("an integer from ", smallest, " to ", largest));
  }
  return found->get<int64_t>();
}

uint64_t JsonFields::seed(const char* name) const {
  auto found = json_.find(name);
  bool fits = found != json_.end() && found->is_number_integer() &&
              (found->is_number_unsigned() || found->get<int64_t>() >= 0);
  if (!fits) fail(name, "an integer of 64 bits that is not negative");
  return found->get<uint64_t>();
}

const Json& JsonFields::list(const char* name) const {
  auto found = json_.find(name);
  if (found == json_.end() || !found->is_array()) fail(name, "a list");
  return *found;
}

std::vector<std::string> JsonFields::texts(const char* name) const {
  std::vector<std::string> result;
  for (const auto& each : list(name)) {
    if (!each.is_string()) fail(name, str("a list of texts: one is ", shorten(each)));
    result.push_back(each.get<std::string>());
  }
  return result;
}

std::vector<int64_t> JsonFields::row_counts(const char* name) const {
  std::vector<int64_t> result;
  int64_t left = kMaxRows;
  for (const auto& each : list(name)) {
    if (!is_integer_within(each, 0, left)) {
      fail(name, str("a list of numbers of rows, together at most ", kMaxRows, ": one is ",
                     shorten(each)));
    }
    result.push_back(each.get<int64_t>());
    left -= result.back();
  }
  return result;
}

void require_depth(const Json& json, int limit, const std::string& what) {
  // Level by level: what goes too deep must not be walked by recursion.
  std::vector<const Json*> level = {&json};
  for (int depth = 0; !level.empty(); ++depth) {
    if (depth > limit) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(what, ": lists and objects lie in each other more than ", limit, " deep"));
    }
    std::vector<const Json*> next;
    for (const Json* each : level) {
      if (!each->is_structured()) continue;
      for (const auto& inner : *each) next.push_back(&inner);
    }
    level = std::move(next);
  }
}

}  // namespace manta::data
