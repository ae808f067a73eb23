#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "manta/core/resources.h"
#include "manta/data/dataset.h"
#include "manta/preprocess/preprocessor.h"
#include "manta/train/checkpoint.h"
#include "manta/train/config.h"
#include "manta/tune/assignment.h"
#include "manta/tune/space.h"

namespace manta::tune {

namespace detail {

/// What stands for a value in configurations and files.
template <class T>
requires std::is_arithmetic_v<T> Json label_of(const T& value, size_t) { return value; }
Json label_of(const Resources& value, size_t place);
Json label_of(const Checkpoint& value, size_t place);
Json label_of(const AnyPreprocessor& value, size_t place);
Json label_of(const Dataset& value, size_t place);

/// The place in `assignment`, checked.
size_t assigned_place(const Assignment& assignment, const std::string& path, size_t places);
const Json& assigned_value(const Assignment& assignment, const std::string& path);
/// Throws Error(kInvalidArgument) unless it draws numbers of that kind.
void check_domain(const Domain& domain, bool integers);
Space labels(std::vector<Json> labels, bool is_choice, bool is_grid);
/// Throws Error(kInvalidArgument): such values are not in files.
[[noreturn]] void fail_to_load(const std::string& path);
/// The value of a number that was stored.
const Json& loaded_value(const Space& space, const std::string& path);
/// The space of one value: drawn by `assignment`.
Space fixed(const Space& space, const Assignment& assignment, const std::string& path);

}  // namespace detail

/// An option of a trainer as part of a search: a value, or a choice or grid of values, which may be
/// objects such as data sets and preprocessors. An option that is not set is the trainer's own.
/// Numbers can also be drawn from a domain.
template <class T>
class Tunable {
 public:
  Tunable() = default;
  template <class U>
  requires std::is_convertible_v<U, T> Tunable(U&& value)  // NOLINT: a value is one
      : values_{T(std::forward<U>(value))} {}
  template <class U>
  requires std::is_convertible_v<const U&, T> Tunable(const Choice<U>& choice)  // NOLINT
      : values_(choice.values.begin(), choice.values.end()), kind_(kChoice) {}
  template <class U>
  requires std::is_convertible_v<const U&, T> Tunable(const Grid<U>& grid)  // NOLINT
      : values_(grid.values.begin(), grid.values.end()), kind_(kGrid) {}
  template <class... U>
  requires(std::is_convertible_v<const U&, T>&&...)
      Tunable(const MixedChoice<U...>& choice)  // NOLINT
      : values_(all_of(choice.values)), kind_(kChoice) {}
  template <class... U>
  requires(std::is_convertible_v<const U&, T>&&...) Tunable(const MixedGrid<U...>& grid)  // NOLINT
      : values_(all_of(grid.values)), kind_(kGrid) {}
  Tunable(const Domain& domain)  // NOLINT
      requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
      : domain_(domain) {
    detail::check_domain(domain, std::is_integral_v<T>);
  }

  /// The value, once only one is left; nothing if it is not set.
  std::optional<T> value() const {
    if (values_.empty()) return std::nullopt;
    return values_.front();
  }
  /// The option as a Space, in which objects are texts; nothing if it is not set.
  std::optional<Space> space() const {
    if (domain_) return Space(*domain_);
    if (values_.empty() && kind_ == kValue) return std::nullopt;
    std::vector<Json> labels;
    for (const T& value : values_) labels.push_back(detail::label_of(value, labels.size()));
    return detail::labels(std::move(labels), kind_ != kValue, kind_ == kGrid);
  }
  /// Takes what `space` returned. Throws Error(kInvalidArgument) if T is not a number.
  void load(const Space& space, const std::string& path) {
    if constexpr (std::is_arithmetic_v<T>) {
      auto* options = std::get_if<Space::Options>(&space.node());
      auto* domain = std::get_if<Domain>(&space.node());
      if (domain) {
        if constexpr (!std::is_same_v<T, bool>) *this = Tunable(*domain);
      } else if (options) {
        for (const Space& each : options->values)
          values_.push_back(detail::loaded_value(each, path).template get<T>());
        kind_ = options->is_grid ? kGrid : kChoice;
      } else {
        values_ = {detail::loaded_value(space, path).template get<T>()};
      }
    } else {
      detail::fail_to_load(path);
    }
  }
  /// Keeps only the value that was drawn.
  void fix(const Assignment& assignment, const std::string& path) {
    if (domain_) {
      if constexpr (std::is_arithmetic_v<T>)
        values_ = {detail::assigned_value(assignment, path).get<T>()};
      domain_.reset();
    } else if (kind_ != kValue) {
      values_ = {values_[detail::assigned_place(assignment, path, values_.size())]};
      kind_ = kValue;
    }
  }

 private:
  enum Kind { kValue, kChoice, kGrid };
  template <class Tuple>
  static std::vector<T> all_of(const Tuple& values) {
    return std::apply([](const auto&... each) { return std::vector<T>{T(each)...}; }, values);
  }

  std::vector<T> values_;
  Kind kind_ = kValue;
  std::optional<Domain> domain_;
};

/// ScalingConfig as part of a search.
struct ScalingSpace {
  Tunable<int> num_workers = {};
  Tunable<bool> use_gpu = {};
  Tunable<Resources> resources_per_worker = {};

  template <class Visit>
  void visit(Visit&& visit) {
    visit("num_workers", num_workers);
    visit("use_gpu", use_gpu);
    visit("resources_per_worker", resources_per_worker);
  }
};

/// A trainer's Space is a struct of tunable options with a `visit(f)` that calls f(name, option)
/// for each. A Tuner does only three things with it: it makes one tune::Space from the struct,
/// which can be stored; it makes the struct from a tune::Space again; and it gives each option the
/// value that was drawn. The trainer's `apply(space, run_config)` then makes a trainer with these
/// values.
template <class Options>
Space as_space(Options options);
template <class Options>
Options from_space(const Space& space);
template <class Options>
void fix(Options& options, const Assignment& assignment);

namespace detail {

std::string join_path(const std::string& path, const std::string& name);

struct Collect {
  Space::Object object = {};

  void operator()(const std::string& name, Space& space) { object.emplace(name, space); }
  template <class T>
  void operator()(const std::string& name, Tunable<T>& tunable) {
    if (auto space = tunable.space()) object.emplace(name, std::move(*space));
  }
  template <class T>
  void operator()(const std::string& name, std::map<std::string, Tunable<T>>& tunables) {
    Collect inner;
    for (auto& [key, tunable] : tunables) inner(key, tunable);
    add(name, std::move(inner));
  }
  template <class Options>
  void operator()(const std::string& name, Options& options) {
    Collect inner;
    options.visit(inner);
    add(name, std::move(inner));
  }
  void add(const std::string& name, Collect inner) {
    if (!inner.object.empty()) object.emplace(name, Space::from_node(std::move(inner.object)));
  }
};

struct Load {
  const Space& space;
  std::string path = "param_space";

  const Space* find(const std::string& name) const;
  void operator()(const std::string& name, Space& to) {
    if (auto* found = find(name)) to = *found;
  }
  template <class T>
  void operator()(const std::string& name, Tunable<T>& tunable) {
    if (auto* found = find(name)) tunable.load(*found, path + "." + name);
  }
  template <class T>
  void operator()(const std::string& name, std::map<std::string, Tunable<T>>&) {
    if (find(name)) fail_to_load(path + "." + name);
  }
  template <class Options>
  void operator()(const std::string& name, Options& options) {
    if (auto* found = find(name)) options.visit(Load{*found, path + "." + name});
  }
};

struct Fix {
  const Assignment& assignment;
  std::string path = "";

  std::string at(const std::string& name) const { return join_path(path, name); }
  void operator()(const std::string& name, Space& space) {
    space = fixed(space, assignment, at(name));
  }
  template <class T>
  void operator()(const std::string& name, Tunable<T>& tunable) {
    tunable.fix(assignment, at(name));
  }
  template <class T>
  void operator()(const std::string& name, std::map<std::string, Tunable<T>>& tunables) {
    Fix inner{assignment, at(name)};
    for (auto& [key, tunable] : tunables) inner(key, tunable);
  }
  template <class Options>
  void operator()(const std::string& name, Options& options) {
    options.visit(Fix{assignment, at(name)});
  }
};

}  // namespace detail

template <class Options>
Space as_space(Options options) {
  detail::Collect collect;
  options.visit(collect);
  return Space::from_node(std::move(collect.object));
}

template <class Options>
Options from_space(const Space& space) {
  if constexpr (std::is_same_v<Options, Space>) {
    return space;
  } else {
    Options options;
    options.visit(detail::Load{space});
    return options;
  }
}

template <class Options>
void fix(Options& options, const Assignment& assignment) {
  options.visit(detail::Fix{assignment});
}

/// The trainer's own configuration, overridden by options that have been fixed. Objects in it are
/// merged.
Json override_config(const Json& own, const Space& fixed);
ScalingConfig override_scaling(ScalingConfig own, const ScalingSpace& fixed);

}  // namespace manta::tune
