#include <cmath>
#include <new>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"

namespace manta {
namespace {

constexpr size_t kShownBytes = 80;

// Makes the value while nlohmann's parser, which is not recursive, reads the text, so that no value
// exceeds a limit.
class Builder {
 public:
  Builder(const std::string& what, const JsonLimits& limits) : what_(what), limits_(limits) {}

  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { fail("has bytes where JSON is expected"); }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    auto [place, fresh] = open_.back()->get_ref<Json::object_t&>().try_emplace(name);
    if (!fresh) fail(str("has the key ", short_text(Json(name)), " twice in one object"));
    next_ = &place->second;
    return true;
  }

  bool parse_error(size_t, const std::string&, const Json::exception& error) {
    // The text after nlohmann's own error number: "... line 1, column 5: syntax error ..."
    std::string text = error.what();
    size_t begin = text.find("] ");
    fail("is not JSON: " + (begin == std::string::npos ? text : text.substr(begin + 2)));
  }

  Json take() { return std::move(root_); }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorKind::kCorrupt, str(what_, " ", why));
  }

 private:
  Json& place(Json value) {
    if (++values_ > limits_.values) fail(str("has more than ", limits_.values, " values"));
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_object()) return *next_ = std::move(value);
    auto& array = open_.back()->get_ref<Json::array_t&>();
    array.push_back(std::move(value));
    return array.back();
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (static_cast<int>(open_.size()) >= limits_.depth)
      fail(str("has more than ", limits_.depth, " arrays and objects inside each other"));
    open_.push_back(&place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& what_;
  const JsonLimits& limits_;
  Json root_;
  std::vector<Json*> open_;  // from the root to the value that is being filled
  Json* next_ = nullptr;     // the place of the last key's value
  size_t values_ = 0;
};

bool deeper(const Json& json, int depth) {
  if (!json.is_structured()) return false;
  if (depth == 0) return true;
  for (const Json& part : json)
    if (deeper(part, depth - 1)) return true;
  return false;
}

bool is_text(const Json& json, size_t longest) {
  if (!json.is_string()) return false;
  const auto& text = json.get_ref<const std::string&>();
  return text.size() <= longest && text.find('\0') == std::string::npos;
}

}  // namespace

std::string short_text(const Json& json) {
  // A large value is not printed whole, only to be cut.
  if (json.is_structured() && (json.size() > kShownBytes || deeper(json, 4)))
    return str(json.is_array() ? "an array" : "an object", " of ", json.size());
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kShownBytes ? text : text.substr(0, kShownBytes) + "...";
}

Json parse_json(std::string_view text, const std::string& what, const JsonLimits& limits) {
  Builder builder(what, limits);
  if (text.size() > limits.bytes)
    builder.fail(str("has ", text.size(), " bytes; at most ", limits.bytes, " are read"));
  try {
    Json::sax_parse(text.begin(), text.end(), &builder);
    return builder.take();
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kResources,
                str("no memory for the values in the ", text.size(), " bytes of ", what));
  }
}

void check_depth(const Json& json, const std::string& what, int depth) {
  if (deeper(json, depth))
    throw Error(ErrorKind::kInvalidArgument,
                str(what, " has more than ", depth,
                    " arrays and objects inside each other; no more are read"));
}

bool is_utf8(const Json& json) {
  try {
    json.dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

std::string readable_text(const Json& json, const std::string& what, const std::string& advice,
                          const JsonLimits& limits, int indent) {
  check_depth(json, what, limits.depth);  // before it is printed, which is recursive
  std::string text = json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
  try {
    parse_json(text, what, limits);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    throw Error(ErrorKind::kInvalidArgument,
                str(error.what(), ", so it would not be read again: ", advice));
  }
  return text;
}

size_t count_values(const Json& json) {
  size_t count = 1;
  if (json.is_structured()) {
    for (const Json& part : json) count += count_values(part);
  }
  return count;
}

JsonFields::JsonFields(const Json& object, JsonDocument document, std::string path)
    : object_(object), document_(std::move(document)), path_(std::move(path)) {
  if (object_.is_object()) return;
  std::string name = path_.empty() ? "" : path_.substr(0, path_.size() - 1) + " ";
  throw Error(document_.kind, str(document_.name, " is damaged: ", name, "is ", short_text(object_),
                                  " instead of a JSON object"));
}

void JsonFields::fail(const std::string& key, const std::string& expected) const {
  auto found = object_.find(key);
  throw Error(document_.kind,
              str(document_.name, " is damaged: ", path_, key,
                  found == object_.end() ? " is missing" : " is " + short_text(*found),
                  "; expected ", expected));
}

const Json& JsonFields::any(const std::string& key) const {
  auto found = object_.find(key);
  if (found == object_.end()) fail(key, "a value");
  return *found;
}

int64_t JsonFields::integer(const std::string& key, int64_t least, int64_t most) const {
  std::string expected = str("a whole number from ", least, " to ", most);
  auto found = object_.find(key);
  if (found == object_.end() || !found->is_number_integer()) fail(key, expected);
  if (found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    fail(key, expected);
  auto value = found->get<int64_t>();
  if (value < least || value > most) fail(key, expected);
  return value;
}

uint64_t JsonFields::unsigned_integer(const std::string& key) const {
  auto found = object_.find(key);
  bool good = found != object_.end() && found->is_number_integer() &&
              (found->is_number_unsigned() || found->get<int64_t>() >= 0);
  if (!good) fail(key, "a whole number of 64 bits that is not negative");
  return found->get<uint64_t>();
}

double JsonFields::number(const std::string& key, double least, double most) const {
  auto found = object_.find(key);
  double value = found != object_.end() && found->is_number() ? found->get<double>() : NAN;
  if (!(value >= least && value <= most)) fail(key, str("a number from ", least, " to ", most));
  return value;
}

bool JsonFields::boolean(const std::string& key) const {
  auto found = object_.find(key);
  if (found == object_.end() || !found->is_boolean()) fail(key, "true or false");
  return found->get<bool>();
}

std::string JsonFields::text(const std::string& key, size_t longest) const {
  auto found = object_.find(key);
  if (found == object_.end() || !is_text(*found, longest))
    fail(key, str("a text of at most ", longest, " bytes"));
  return found->get<std::string>();
}

std::vector<std::string> JsonFields::texts(const std::string& key, size_t longest) const {
  std::vector<std::string> result;
  for (const Json& each : array(key)) {
    if (!is_text(each, longest))
      fail(key, str("texts of at most ", longest, " bytes: one is ", short_text(each)));
    result.push_back(each.get<std::string>());
  }
  return result;
}

JsonFields JsonFields::object(const std::string& key) const {
  return JsonFields(any(key), document_, path_ + key + ".");
}

JsonFields JsonFields::element(const std::string& key, size_t index) const {
  return JsonFields(array(key).at(index), document_, str(path_, key, "[", index, "]."));
}

const Json& JsonFields::array(const std::string& key) const {
  const Json& value = any(key);
  if (!value.is_array()) fail(key, "an array");
  return value;
}

const Json& JsonFields::object_or_null(const std::string& key) const {
  const Json& value = any(key);
  if (!value.is_object() && !value.is_null()) fail(key, "an object or null");
  return value;
}

}  // namespace manta
