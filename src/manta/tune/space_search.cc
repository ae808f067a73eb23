#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/tune/space_internal.h"

namespace manta::tune {
namespace {

constexpr uint64_t kMostPoints = uint64_t{1} << 40;

std::string join(const std::string& path, const std::string& part) {
  return path.empty() ? part : path + "/" + part;
}

std::string option_path(const std::string& path, size_t option) {
  return str(path, "[", option, "]");
}

// Calls `call(child, its path)` for what is inside an object or an array.
template <class Call>
void for_each_child(const Space& space, const std::string& path, Call&& call) {
  if (auto* object = std::get_if<Space::Object>(&space.node())) {
    for (const auto& [key, child] : *object) call(child, join(path, path_part(key)));
  } else if (auto* array = std::get_if<Space::Array>(&space.node())) {
    for (size_t i = 0; i < array->size(); ++i) call((*array)[i], join(path, std::to_string(i)));
  }
}

uint64_t checked(const std::string& path, unsigned __int128 points) {
  if (points > kMostPoints)
    throw Error(ErrorKind::kInvalidArgument,
                str("the grids of the search space", path.empty() ? "" : " at '" + path + "'",
                    " have more than ", kMostPoints, " points together; use choice for some"));
  return static_cast<uint64_t>(points);
}

uint64_t grid_size(const Space& space, const std::string& path) {
  if (auto* options = std::get_if<Space::Options>(&space.node())) {
    unsigned __int128 sum = 0;
    for (size_t i = 0; i < options->values.size(); ++i) {
      uint64_t size = grid_size(options->values[i], option_path(path, i));
      if (size > 1 && !options->is_grid)
        throw Error(ErrorKind::kInvalidArgument,
                    str("the choice at '", path,
                        "' has a grid_search in it, of which only a part would be tried; use "
                        "choice there, or grid_search for both"));
      sum += size;
    }
    return options->is_grid ? checked(path, sum) : 1;
  }
  unsigned __int128 product = 1;
  for_each_child(space, path, [&](const Space& child, const std::string& at) {
    product = checked(path, product * grid_size(child, at));
  });
  return static_cast<uint64_t>(product);
}

// `index` counts the grid points of this part of the space.
void draw_at(const Space& space, const std::string& path, uint64_t index, Random& random,
             Assignment& drawn) {
  if (auto* domain = std::get_if<Domain>(&space.node())) {
    if (!std::holds_alternative<SampleFrom>(domain->kind())) drawn[path] = domain->draw(random);
  } else if (auto* options = std::get_if<Space::Options>(&space.node())) {
    size_t chosen = 0;
    if (options->is_grid) {
      for (uint64_t size; index >= (size = grid_size(options->values[chosen], path)); ++chosen)
        index -= size;
    } else {
      chosen = random.integer(options->values.size());
    }
    drawn[path] = chosen;
    draw_at(options->values[chosen], option_path(path, chosen), index, random, drawn);
  } else {
    uint64_t left = grid_size(space, path);
    for_each_child(space, path, [&](const Space& child, const std::string& at) {
      left /= grid_size(child, at);
      draw_at(child, at, index / left, random, drawn);
      index %= left;
    });
  }
}

[[noreturn]] void misfit(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::kCorrupt,
              str("a trial's values do not fit the search space: '", path, "' ", why));
}

const Space& chosen_of(const Space::Options& options, const std::string& path, const Json& value,
                       size_t* chosen) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= options.values.size())
    misfit(path, str("should be below ", options.values.size(), ", and is ", short_text(value)));
  *chosen = value.get<size_t>();
  return options.values[*chosen];
}

// Functions that have not been asked yet are null.
Json resolve_at(const Space& space, const std::string& path, const Assignment& assignment) {
  auto assigned = [&]() -> const Json& {
    auto found = assignment.find(path);
    if (found == assignment.end()) misfit(path, "has none");
    return found->second;
  };
  if (auto* constant = std::get_if<Json>(&space.node())) return *constant;
  if (auto* domain = std::get_if<Domain>(&space.node())) {
    bool asked = !std::holds_alternative<SampleFrom>(domain->kind()) || assignment.contains(path);
    return asked ? assigned() : Json();
  }
  if (auto* options = std::get_if<Space::Options>(&space.node())) {
    size_t chosen = 0;
    const Space& child = chosen_of(*options, path, assigned(), &chosen);
    return resolve_at(child, option_path(path, chosen), assignment);
  }
  Json result = std::holds_alternative<Space::Array>(space.node()) ? Json::array() : Json::object();
  if (auto* object = std::get_if<Space::Object>(&space.node())) {
    for (const auto& [key, child] : *object)
      result[key] = resolve_at(child, join(path, path_part(key)), assignment);
  } else {
    for_each_child(space, path, [&](const Space& child, const std::string& at) {
      result.push_back(resolve_at(child, at, assignment));
    });
  }
  return result;
}

// Finds the functions in the drawn options, in the order of paths.
void find_functions(const Space& space, const std::string& path, const Assignment& assignment,
                    std::vector<std::pair<std::string, const Domain*>>& found) {
  if (auto* domain = std::get_if<Domain>(&space.node())) {
    if (std::holds_alternative<SampleFrom>(domain->kind())) found.emplace_back(path, domain);
  } else if (auto* options = std::get_if<Space::Options>(&space.node())) {
    size_t chosen = 0;
    const Space& child = chosen_of(*options, path, assignment.at(path), &chosen);
    find_functions(child, option_path(path, chosen), assignment, found);
  } else {
    for_each_child(space, path, [&](const Space& child, const std::string& at) {
      find_functions(child, at, assignment, found);
    });
  }
}

}  // namespace

std::string path_part(const std::string& key) {
  std::string part;
  for (char c : key) part += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return part;
}

uint64_t grid_size(const Space& space) { return grid_size(space, ""); }

Assignment draw(const Space& space, uint64_t grid_index, Random& random) {
  Assignment drawn;
  draw_at(space, "", grid_index, random, drawn);
  std::vector<std::pair<std::string, const Domain*>> functions;
  find_functions(space, "", drawn, functions);
  for (const auto& [path, domain] : functions)
    drawn[path] = domain->draw(random, resolve_at(space, "", drawn));
  return drawn;
}

Json resolve(const Space& space, const Assignment& assignment, const std::string& path) {
  return resolve_at(space, path, assignment);
}

}  // namespace manta::tune
