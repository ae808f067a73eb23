#include <map>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/preprocessor_internal.h"

namespace manta {
namespace {

std::map<std::string, MakePreprocessor>& preprocessors() {
  static std::map<std::string, MakePreprocessor> by_name;
  return by_name;
}

}  // namespace

bool register_preprocessor(const std::string& name, MakePreprocessor make) {
  bool is_new = preprocessors().emplace(name, make).second;
  MANTA_CHECK(is_new, str("two preprocessors are called '", name, "'"));
  return true;
}

Json preprocessor_to_json(const Preprocessor& preprocessor) {
  return {{"version", 1}, {"name", preprocessor.name()}, {"state", preprocessor.state()}};
}

std::shared_ptr<Preprocessor> preprocessor_from_json(const Json& json,
                                                     const std::string& document) {
  if (!json.is_object()) {
    throw Error(ErrorKind::kCorrupt, str(document, " is not a preprocessor: ", short_text(json)));
  }
  JsonFields fields(json, document);
  fields.integer("version", 1, 1);
  std::string name = fields.text("name");
  auto known = preprocessors().find(name);
  if (known == preprocessors().end()) {
    throw Error(ErrorKind::kNotFound,
                str(document, " names a preprocessor '", name,
                    "', which this program does not have: link what defines it"));
  }
  try {
    return known->second(fields.any("state"));
  } catch (const Error& error) {
    throw Error(error.kind(), str(document, ", state of '", name, "': ", error.what()));
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kCorrupt, str(document, ", state of '", name, "': ", error.what()));
  }
}

}  // namespace manta
