#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "manta/base/json.h"
#include "manta/tune/domain.h"

namespace manta::tune {

namespace detail {
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, const char*>, std::string, T>;
}

/// One of several values, each equally likely.
template <class T>
struct Choice {
  std::vector<T> values;
};

/// All of several values: one after the other.
template <class T>
struct Grid {
  std::vector<T> values;
};

/// Values of different types, such as two classes of preprocessors.
template <class... T>
struct MixedChoice {
  std::tuple<T...> values;
};
template <class... T>
struct MixedGrid {
  std::tuple<T...> values;
};

/// What is searched: written as Json, with domains, choices and grids in place of values.
///
/// ```
/// tune::Space space = {{"lr", tune::loguniform(1e-4, 1e-1)},
///                      {"layers", {64, tune::choice({64, 128})}},
///                      {"optimizer", tune::choice<tune::Space>(
///                           {{{"kind", "sgd"}, {"momentum", tune::uniform(0, 1)}},
///                            {{"kind", "adam"}}})}};
/// ```
///
/// As in Json, braces are an object if they hold only pairs that begin with a text, otherwise an
/// array.
class Space {
 public:
  /// One of the values is chosen; in a grid, all of them in turn.
  struct Options {
    std::vector<Space> values;
    bool is_grid = false;
  };
  using Object = std::map<std::string, Space>;
  using Array = std::vector<Space>;
  using Node = std::variant<Json, Domain, Options, Object, Array>;

  Space() : node_(Object()) {}  ///< An object without values.
  Space(std::initializer_list<Space> list);
  Space(Domain domain) : node_(std::move(domain)) {}  // NOLINT: a leaf is a space
  template <class T>
  requires(!std::derived_from<std::decay_t<T>, Space> && !std::is_same_v<std::decay_t<T>, Domain> &&
           std::is_constructible_v<Json, const T&>) Space(const T& value)
      : Space(constant(Json(value))) {}  // NOLINT
  template <class T>
  Space(const Choice<T>& choice) : Space(options(choice.values, false)) {}  // NOLINT
  template <class T>
  Space(const Grid<T>& grid) : Space(options(grid.values, true)) {}  // NOLINT
  template <class... T>
  Space(const MixedChoice<T...>& choice) : Space(mixed(choice.values, false)) {}  // NOLINT
  template <class... T>
  Space(const MixedGrid<T...>& grid) : Space(mixed(grid.values, true)) {}  // NOLINT

  const Node& node() const { return node_; }
  static Space from_node(Node node);

 private:
  explicit Space(Node node) : node_(std::move(node)) {}
  static Space constant(Json value);
  static Space options(std::vector<Space> values, bool is_grid);
  template <class T>
  static Space options(const std::vector<T>& values, bool is_grid) {
    return options(std::vector<Space>(values.begin(), values.end()), is_grid);
  }
  template <class Tuple>
  static Space mixed(const Tuple& values, bool is_grid) {
    return std::apply(
        [&](const auto&... each) { return options(std::vector<Space>{Space(each)...}, is_grid); },
        values);
  }

  Node node_;
};

/// Throw Error(kInvalidArgument) when they become part of a space, if they are empty.
template <class T>
Choice<detail::Stored<T>> choice(std::initializer_list<T> values) {
  return {std::vector<detail::Stored<T>>(values.begin(), values.end())};
}
template <class T>
Choice<T> choice(std::vector<T> values) {
  return {std::move(values)};
}
template <class A, class B, class... More>
MixedChoice<A, B, More...> choice(A first, B second, More... more) {
  return {{std::move(first), std::move(second), std::move(more)...}};
}

template <class T>
Grid<detail::Stored<T>> grid_search(std::initializer_list<T> values) {
  return {std::vector<detail::Stored<T>>(values.begin(), values.end())};
}
template <class T>
Grid<T> grid_search(std::vector<T> values) {
  return {std::move(values)};
}
template <class A, class B, class... More>
MixedGrid<A, B, More...> grid_search(A first, B second, More... more) {
  return {{std::move(first), std::move(second), std::move(more)...}};
}

}  // namespace manta::tune
