#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/json.h"

namespace manta {

/// Limits for a JSON text from an untrusted writer.
struct JsonLimits {
  size_t bytes = size_t{16} << 20;
  /// Arrays and objects inside each other. Copying, printing and reading values is recursive: a
  /// text of nothing but brackets would use up the stack.
  int depth = 100;
  size_t values = 4'000'000;  ///< A value of one byte may take a hundred in memory.
};

/// Parses a text that may hold anything. Throws Error(kCorrupt), whose message begins with `what`,
/// if it is not JSON, has a key twice in one object, or exceeds a limit; Error(kResources) if there
/// is no memory for it.
Json parse_json(std::string_view text, const std::string& what, const JsonLimits& limits = {});

/// Throws Error(kInvalidArgument) if `json` has more levels than parse_json would take: what is
/// written must be readable. It never recurses deeper than that limit itself.
void check_depth(const Json& json, const std::string& what, int depth = JsonLimits().depth);

/// Whether all texts and keys in it are UTF-8. JSON cannot hold any other text.
bool is_utf8(const Json& json);

/// The document whose fields are read, for error messages.
struct JsonDocument {
  JsonDocument(std::string document, ErrorKind error_kind = ErrorKind::kCorrupt)  // NOLINT
      : name(std::move(document)), kind(error_kind) {}

  std::string name;  ///< How messages begin, e.g. "'/runs/a/params.json'".
  ErrorKind kind;    ///< Of the errors.
};

/// The text of `json` and a line end, for a file that parse_json reads with these limits: NaN
/// becomes null, and bytes that are not UTF-8 are replaced. Throws Error(kInvalidArgument), whose
/// message begins with `what` and ends with `advice`, if parse_json would refuse it. `indent` as
/// Json::dump. Costs as much as reading it.
std::string readable_text(const Json& json, const std::string& what, const std::string& advice,
                          const JsonLimits& limits = {}, int indent = -1);

/// The number of values: each array and object counts as one, plus the values in it.
size_t count_values(const Json& json);

namespace internal {  // public headers name it

/// The fields of an object that may hold anything. A field that is missing, of another type or out
/// of range is an Error of the document's kind that names the document, the field, its value and
/// what was expected. Holds a reference to the object.
class JsonFields {
 public:
  JsonFields(const Json& object, JsonDocument document, std::string path = "");

  bool has(const std::string& key) const { return object_.contains(key); }
  const Json& any(const std::string& key) const;
  /// Whole numbers only; 3.0 is not one.
  int64_t integer(const std::string& key, int64_t least, int64_t most) const;
  /// Any 64-bit number that is not negative.
  uint64_t unsigned_integer(const std::string& key) const;
  /// Finite.
  double number(const std::string& key, double least, double most) const;
  bool boolean(const std::string& key) const;
  /// Without zero bytes.
  std::string text(const std::string& key, size_t longest = 4096) const;
  /// An array of such texts.
  std::vector<std::string> texts(const std::string& key, size_t longest = 4096) const;
  JsonFields object(const std::string& key) const;
  /// The object at this place of an array.
  JsonFields element(const std::string& key, size_t index) const;
  const Json& array(const std::string& key) const;
  /// An object, or null.
  const Json& object_or_null(const std::string& key) const;
  const Json& json() const { return object_; }

  [[noreturn]] void fail(const std::string& key, const std::string& expected) const;

 private:
  const Json& object_;
  JsonDocument document_;
  std::string path_;  // of this object in the document: "run_config."
};

}  // namespace internal

/// The value for a message, cut if it is long.
std::string short_text(const Json& json);

}  // namespace manta
