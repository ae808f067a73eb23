#pragma once

#include <torch/types.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace manta::train::detail {

/// Calls a function on every tensor in the output of a module's forward: a tensor; an optional,
/// tuple, pair, vector, array or map of such outputs; or a struct that says where its tensors are:
///
/// ```
/// struct Output {
///   torch::Tensor logits, loss;
///   int64_t tokens;
///   template <class F> void each_tensor(F&& f) { f(logits); f(loss); }
/// }; ``` `f` takes any such output, e.g. a vector of tensors. Numbers, enumerators and strings
/// have no tensors: they may stand next to tensors in a tuple.
template <class T>
struct OutputTensors : std::false_type {};

template <class T>
inline constexpr bool has_output_tensors = OutputTensors<std::decay_t<T>>::value;

template <class T, class F>
void for_each_tensor(T& output, const F& function) {
  OutputTensors<T>::visit(output, function);
}

struct AnyPart {
  template <class T>
  void operator()(T&) const {}
};
template <class T>
concept SaysItsTensors = requires(T& output) {
  output.each_tensor(AnyPart());
};
template <class T>
concept HasNoTensors =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string>;

template <HasNoTensors T>
struct OutputTensors<T> : std::true_type {
  template <class F>
  static void visit(T&, const F&) {}
};

template <SaysItsTensors T>
struct OutputTensors<T> : std::true_type {
  template <class F>
  static void visit(T& output, const F& function) {
    output.each_tensor([&](auto& part) { for_each_tensor(part, function); });
  }
};

template <>
struct OutputTensors<torch::Tensor> : std::true_type {
  template <class F>
  static void visit(torch::Tensor& output, const F& function) {
    if (output.defined()) function(output);
  }
};

template <class T>
struct OutputTensors<std::optional<T>> : OutputTensors<T> {
  template <class F>
  static void visit(std::optional<T>& output, const F& function) {
    if (output) for_each_tensor(*output, function);
  }
};

template <class... T>
struct OutputTensors<std::tuple<T...>> : std::conjunction<OutputTensors<T>...> {
  template <class F>
  static void visit(std::tuple<T...>& output, const F& function) {
    std::apply([&](T&... parts) { (for_each_tensor(parts, function), ...); }, output);
  }
};

template <class A, class B>
struct OutputTensors<std::pair<A, B>> : std::conjunction<OutputTensors<A>, OutputTensors<B>> {
  template <class F>
  static void visit(std::pair<A, B>& output, const F& function) {
    for_each_tensor(output.first, function);
    for_each_tensor(output.second, function);
  }
};

template <class Range>
struct OutputRange {
  template <class F>
  static void visit(Range& output, const F& function) {
    for (auto& part : output) for_each_tensor(part, function);
  }
};

template <class T>
struct OutputTensors<std::vector<T>> : OutputTensors<T>::type, OutputRange<std::vector<T>> {
  using OutputRange<std::vector<T>>::visit;
};
template <class T, size_t n>
struct OutputTensors<std::array<T, n>> : OutputTensors<T>::type, OutputRange<std::array<T, n>> {
  using OutputRange<std::array<T, n>>::visit;
};

template <class Map>
struct OutputMap {
  template <class F>
  static void visit(Map& output, const F& function) {
    for (auto& [key, part] : output) for_each_tensor(part, function);
  }
};

template <class K, class T>
struct OutputTensors<std::map<K, T>> : OutputTensors<T>::type, OutputMap<std::map<K, T>> {
  using OutputMap<std::map<K, T>>::visit;
};
template <class K, class T>
struct OutputTensors<std::unordered_map<K, T>> : OutputTensors<T>::type,
                                                 OutputMap<std::unordered_map<K, T>> {
  using OutputMap<std::unordered_map<K, T>>::visit;
};

}  // namespace manta::train::detail
