#include "manta/tune/space.h"

#include "manta/base/error_internal.h"
#include "manta/tune/space_internal.h"

namespace manta::tune {
namespace {

// The key, if it is a pair that begins with a text.
const std::string* key_of_pair(const Space& space) {
  auto* pair = std::get_if<Space::Array>(&space.node());
  if (!pair || pair->size() != 2) return nullptr;
  auto* first = std::get_if<Json>(&(*pair)[0].node());
  return first && first->is_string() ? first->get_ptr<const std::string*>() : nullptr;
}

}  // namespace

Space::Space(std::initializer_list<Space> list) {
  bool is_object = true;
  for (const Space& each : list) is_object = is_object && key_of_pair(each);
  if (!is_object) {
    node_ = Array(list);
    return;
  }
  Object object;
  for (const Space& each : list) {
    const std::string& key = *key_of_pair(each);
    if (!object.emplace(key, std::get<Array>(each.node_)[1]).second)
      throw Error(ErrorKind::kInvalidArgument, str("a search space has '", key, "' twice"));
  }
  node_ = std::move(object);
}

// Takes Json apart, so that a space of constants is the same, whether it is written as Json or not.
Space Space::constant(Json value) {
  if (value.is_object()) {
    Object object;
    for (auto& [key, each] : value.items()) object.emplace(key, constant(std::move(each)));
    return Space(Node(std::move(object)));
  }
  if (value.is_array()) {
    Array array;
    for (auto& each : value) array.push_back(constant(std::move(each)));
    return Space(Node(std::move(array)));
  }
  return Space(Node(std::move(value)));
}

Space Space::options(std::vector<Space> values, bool is_grid) {
  if (values.empty())
    throw Error(ErrorKind::kInvalidArgument,
                str(is_grid ? "grid_search" : "choice", ": there are no values to choose from"));
  return Space(Node(Options{std::move(values), is_grid}));
}

Space Space::from_node(Node node) { return Space(std::move(node)); }

}  // namespace manta::tune
