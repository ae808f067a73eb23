#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/tune/space_internal.h"

namespace manta::tune {

// Each node is an object with one field that says what it is.
Json to_json(const Space& space, bool* whole) {
  if (auto* constant = std::get_if<Json>(&space.node())) return {{"value", *constant}};
  if (auto* domain = std::get_if<Domain>(&space.node())) {
    Json stored = domain->to_json();
    if (stored.is_null()) *whole = false;
    return {{"domain", std::move(stored)}};
  }
  if (auto* object = std::get_if<Space::Object>(&space.node())) {
    Json fields = Json::object();
    for (const auto& [key, child] : *object) fields[key] = to_json(child, whole);
    return {{"object", std::move(fields)}};
  }
  auto* options = std::get_if<Space::Options>(&space.node());
  const auto& children = options ? options->values : std::get<Space::Array>(space.node());
  Json values = Json::array();
  for (const Space& child : children) values.push_back(to_json(child, whole));
  return {{!options ? "array" : options->is_grid ? "grid" : "choice", std::move(values)}};
}

Space space_from_json(const Json& json, const std::string& document) {
  JsonFields fields(json, document);
  if (fields.has("value")) return Space::from_node(fields.any("value"));
  if (fields.has("domain")) return Domain::from_json(fields.any("domain"), document);
  if (fields.has("object")) {
    Space::Object object;
    JsonFields children = fields.object("object");
    for (const auto& [key, child] : children.json().items())
      object.emplace(key, space_from_json(child, document));
    return Space::from_node(std::move(object));
  }
  const char* kind = fields.has("grid") ? "grid" : fields.has("choice") ? "choice" : "array";
  Space::Array children;
  for (const Json& child : fields.array(kind)) children.push_back(space_from_json(child, document));
  if (kind == std::string("array")) return Space::from_node(std::move(children));
  if (children.empty()) fields.fail(kind, "at least one value");
  return Space::from_node(Space::Options{std::move(children), kind == std::string("grid")});
}

}  // namespace manta::tune
