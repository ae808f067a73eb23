#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "manta/base/json.h"

namespace manta::data {

/// More rows than any data has, and few enough that sums and bytes of them do not overflow.
inline constexpr int64_t kMaxRows = int64_t{1} << 48;

/// The text as JSON, cut after some dozen characters, for messages about what somebody else wrote.
std::string shorten(const Json& json);

/// The fields of a JSON object that may come from anybody. Each is there, of its type and within
/// its limits, or Error(kInvalidArgument) names the object and the field.
class JsonFields {
 public:
  /// `json` must outlive this. Throws if it is no object.
  JsonFields(const Json& json, std::string what);

  bool has(const char* name) const { return json_.contains(name); }
  const Json& at(const char* name) const;
  std::string text(const char* name) const;
  bool flag(const char* name) const;
  int64_t integer(const char* name, int64_t smallest, int64_t largest) const;
  uint64_t seed(const char* name) const;
  const Json& list(const char* name) const;
  std::vector<std::string> texts(const char* name) const;
  /// None negative, and all together at most kMaxRows.
  std::vector<int64_t> row_counts(const char* name) const;
  [[noreturn]] void fail(const char* name, const std::string& expected) const;

 private:
  const Json& json_;
  std::string what_;
};

/// Throws Error(kInvalidArgument) if lists and objects lie in each other more than `limit` deep.
void require_depth(const Json& json, int limit, const std::string& what);

}  // namespace manta::data
