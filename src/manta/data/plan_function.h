#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "manta/base/json.h"
#include "manta/core/archive_json.h"
#include "manta/core/function.h"
#include "manta/core/value.h"
#include "manta/data/row_function.h"

namespace manta {

namespace internal {
class JsonFields;
}

/// A function with a name, by which a stored plan finds it: see `named`.
template <class F>
struct Named {
  std::string name;
  F function;
};

namespace data {

using BatchPtr = std::shared_ptr<arrow::RecordBatch>;

class AggregateCalls;

/// A function with its arguments, in this process.
struct BoundFunction {
  std::function<BatchPtr(const BatchPtr&)> call;
  FunctionKind kind = FunctionKind::kBatch;
  bool takes_args = false;
  std::optional<Json> json_args;  ///< The arguments, if they are JSON.
  std::shared_ptr<const void> args;
  const std::type_info* args_type = nullptr;
  std::string why_not_stored;  ///< What the arguments say of it; empty if nothing.
  std::shared_ptr<const AggregateCalls> aggregate;  ///< Instead of `call`, of an aggregate.
};

/// A function of map_batches, map, flat_map or filter with its arguments, or an aggregate
/// (custom_aggregate.h), as a plan holds it. Processes of one run send it to each other with
/// cereal: its address in this build and the serialised arguments. A file has only its name; see
/// `named`.
class PlanFunction {
 public:
  PlanFunction() = default;
  /// Reads the arguments back at once, so that this process calls exactly what the others will.
  PlanFunction(internal::Function function, internal::Value args, std::string name);

  /// Throws Error(kInvalidArgument) if it is an aggregate.
  BatchPtr operator()(const BatchPtr& batch) const;
  FunctionKind kind() const { return bound_->kind; }
  /// Null if it is not an aggregate.
  const std::shared_ptr<const AggregateCalls>& aggregate() const { return bound_->aggregate; }
  /// Its arguments, if they are a T; else null.
  template <class T>
  const T* args() const {
    bool is_one = bound_->args_type && *bound_->args_type == typeid(T);
    return is_one ? static_cast<const T*>(bound_->args.get()) : nullptr;
  }
  /// Its name, and its arguments if they are JSON.
  std::string to_string() const;
  std::string function_name() const;

  /// Why a file cannot hold it; empty if it can.
  std::string why_not_stored() const;
  /// Its name and arguments. Throws Error(kInvalidArgument) with `why_not_stored`.
  Json to_json() const;
  /// Finds the function by its name. Throws Error(kNotFound) with the names that exist.
  static PlanFunction from_json(const internal::JsonFields& fields);

  void save(internal::OutArchive& archive) const;
  /// Throws Error(kInvalidArgument) if it names no function that this program gives to map_batches.
  void load(internal::InArchive& archive);

 private:
  void bind();

  internal::Function function_;
  internal::Value args_;
  std::string name_;
  std::shared_ptr<const BoundFunction> bound_;
};

namespace detail {

using namespace internal;

enum class Takes { kNothing, kJson, kOther };

/// Registers a thunk that makes a BoundFunction (in `Invocation::instance`).
bool register_batch_thunk(Thunk thunk);
void register_named(const std::string& name, Thunk thunk, void (*target)(), Takes takes);

template <class F>
struct FunctionOf {
  using type = F;
};
template <class F>
struct FunctionOf<Named<F>> {
  using type = F;
};

template <class F>
inline constexpr bool can_travel = manta::detail::is_function_pointer<F> ||
                                   (std::is_class_v<F> && std::is_empty_v<F> &&
                                    std::is_default_constructible_v<F>);

template <class F>
constexpr auto parameters_of() {
  if constexpr (manta::detail::is_function_pointer<F>) {
    return std::type_identity<typename manta::detail::Signature<F>::Parameters>();
  } else if constexpr (manta::detail::HasCallOperator<F>) {
    return std::type_identity<
        typename manta::detail::Signature<decltype(&F::operator())>::Parameters>();
  } else {
    return std::type_identity<std::tuple<>>();
  }
}
template <class F>
using ParametersOf = typename decltype(parameters_of<F>())::type;

template <class Parameters>
struct SecondOf {
  using type = void;
};
template <class First, class Second>
struct SecondOf<std::tuple<First, Second>> {
  using type = Second;
};
template <class F>
using SecondParameter = typename SecondOf<ParametersOf<F>>::type;

template <class F>
constexpr bool takes_batch() {
  return can_travel<F> && std::tuple_size_v<ParametersOf<F>> == 1 &&
         std::is_invocable_r_v<BatchPtr, F, const BatchPtr&>;
}
template <class F>
constexpr bool takes_batch_and_args() {
  if constexpr (can_travel<F> && std::tuple_size_v<ParametersOf<F>> == 2) {
    return std::is_invocable_r_v<BatchPtr, F, const BatchPtr&, const SecondParameter<F>&>;
  } else {
    return false;
  }
}

/// The kind of a function that takes a row and, if there is one, `Args`; nothing if it takes none.
template <class F, class... Args>
constexpr std::optional<FunctionKind> row_kind() {
  if constexpr (std::is_invocable_v<F, const Row&, const Args&...>) {
    using Result = std::invoke_result_t<F, const Row&, const Args&...>;
    if constexpr (std::is_same_v<Result, bool>) return FunctionKind::kFilter;
    if constexpr (std::is_convertible_v<Result, Row> && !std::is_arithmetic_v<Result>) {
      return FunctionKind::kMap;
    }
    if constexpr (std::is_convertible_v<Result, std::vector<Row>>) return FunctionKind::kFlatMap;
  }
  return std::nullopt;
}
template <class F>
constexpr std::optional<FunctionKind> kind_of_row_function() {
  if constexpr (can_travel<F> && std::tuple_size_v<ParametersOf<F>> == 1) {
    return row_kind<F>();
  } else if constexpr (can_travel<F> && std::tuple_size_v<ParametersOf<F>> == 2) {
    return row_kind<F, SecondParameter<F>>();
  } else {
    return std::nullopt;
  }
}
template <class F>
constexpr bool takes_args() {
  return std::tuple_size_v<ParametersOf<F>> == 2;
}

/// What a plan calls with batches, of `call(batch)`, or of `call(row)` with each row.
template <class F, class Call>
std::function<BatchPtr(const BatchPtr&)> call_with_batches(Call call) {
  constexpr auto kind = kind_of_row_function<F>();
  if constexpr (kind == FunctionKind::kMap) {
    return [call](const BatchPtr& batch) { return map_rows(batch, call); };
  } else if constexpr (kind == FunctionKind::kFlatMap) {
    return [call](const BatchPtr& batch) { return flat_map_rows(batch, call); };
  } else if constexpr (kind == FunctionKind::kFilter) {
    return [call](const BatchPtr& batch) { return filter_rows(batch, call); };
  } else {
    return [call](const BatchPtr& batch) -> BatchPtr { return call(batch); };
  }
}

/// Makes the function that a plan calls from the data that was sent.
template <class F>
struct BatchThunk {
  static void invoke(Invocation& call) {
    (void)&registered;
    F function = [&] {
      if constexpr (manta::detail::is_function_pointer<F>) {
        if (!call.target) throw Error(ErrorKind::kInvalidArgument, "a plan names no function");
        return reinterpret_cast<F>(call.target);
      } else {
        return F{};
      }
    }();
    auto bound = std::make_shared<BoundFunction>();
    bound->kind = kind_of_row_function<F>().value_or(FunctionKind::kBatch);
    if constexpr (takes_args<F>()) {
      using Args = SecondParameter<F>;
      auto args = std::make_shared<const Args>(from_value<Args>(*call.args));
      if constexpr (std::same_as<Args, Json>) bound->json_args = *args;
      if constexpr (requires { args->why_not_stored(); }) {
        bound->why_not_stored = args->why_not_stored();
      }
      bound->takes_args = true;
      bound->args = args;
      bound->args_type = &typeid(Args);
      bound->call = call_with_batches<F>(
          [function, args](const auto& rows) { return function(rows, *args); });
    } else {
      bound->call = call_with_batches<F>([function](const auto& rows) { return function(rows); });
    }
    *call.instance = std::move(bound);
  }
  static inline const bool registered = register_batch_thunk(&invoke);
};

template <class F>
Function make_batch_function(F function) {
  if constexpr (manta::detail::is_function_pointer<F>) {
    return {manta::detail::thunk_address<BatchThunk<F>>(),
            locate_code(reinterpret_cast<const void*>(function))};
  } else {
    return {manta::detail::thunk_address<BatchThunk<F>>(), {}};
  }
}

template <class F>
PlanFunction make_plan_function(F function, Value args) {
  return PlanFunction(make_batch_function(function), std::move(args), {});
}
template <class F>
PlanFunction make_plan_function(const Named<F>& function, Value args) {
  return PlanFunction(make_batch_function(function.function), std::move(args), function.name);
}

/// Gives one message that says what is wrong with a function, instead of a page of template errors.
template <class F>
constexpr void require_batch_function() {
  static_assert(!std::is_class_v<F> || manta::detail::HasCallOperator<F>,
                "manta: map_batches needs a plain function or a lambda whose parameters have types "
                "of their own (no `auto`)");
  static_assert(!std::is_class_v<F> || !manta::detail::HasCallOperator<F> || can_travel<F>,
                "manta: map_batches cannot take a lambda with captures, because it runs in other "
                "processes, too. Pass what it captures as arguments: map_batches([](const "
                "std::shared_ptr<arrow::RecordBatch>& batch, const Args& args) {...}, args)");
  static_assert(!can_travel<F> || takes_batch<F>() || takes_batch_and_args<F>() ||
                    (std::is_class_v<F> && !manta::detail::HasCallOperator<F>),
                "manta: map_batches needs a function of the form "
                "std::shared_ptr<arrow::RecordBatch>(const std::shared_ptr<arrow::RecordBatch>&) "
                "or std::shared_ptr<arrow::RecordBatch>(const "
                "std::shared_ptr<arrow::RecordBatch>&, const Args&)");
  static_assert(std::is_class_v<F> || manta::detail::is_function_pointer<F>,
                "manta: map_batches needs a plain function or a lambda without captures");
}

}  // namespace detail

/// Functions of batches: `map_batches(f)`.
template <class F>
concept TakesBatch = detail::takes_batch<typename detail::FunctionOf<F>::type>();
/// Functions of batches and arguments: `map_batches(f, args)`.
template <class F>
concept TakesBatchAndArgs = detail::takes_batch_and_args<typename detail::FunctionOf<F>::type>();
/// The type of those arguments.
template <class F>
using ArgsOf = detail::SecondParameter<typename detail::FunctionOf<F>::type>;

/// Functions of rows: `map(f)`, `flat_map(f)`, `filter(f)`.
template <class F, FunctionKind kind>
concept TakesRow = detail::kind_of_row_function<typename detail::FunctionOf<F>::type>()
== kind && !detail::takes_args<typename detail::FunctionOf<F>::type>();
/// Functions of rows and arguments: `map(f, args)`.
template <class F, FunctionKind kind>
concept TakesRowAndArgs = detail::kind_of_row_function<typename detail::FunctionOf<F>::type>()
== kind&& detail::takes_args<typename detail::FunctionOf<F>::type>();
/// Either of them.
template <class F>
concept RowFunction = detail::kind_of_row_function<F>()
.has_value();

}  // namespace data

/// Gives a function of map_batches, map, flat_map or filter a name, so that a data set that uses it
/// can be stored
/// (`Dataset::to_json`, a run's folder) and the next start of this program finds the function
/// again. Call it at namespace scope, so that the name exists before anything is loaded:
///
///     static const auto clean = manta::named("clean", clean_batch);
///     ...
///     dataset.map_batches(clean)
///
/// Its arguments are stored, too, if they are `Json`. If two functions have the same name, using
/// the name is an error. (A lambda in a header needs `inline const auto`: with `static`, each file
/// that includes it has its own lambda.)
template <class F>
Named<F> named(const std::string& name, F function) {
  if constexpr (!data::RowFunction<F>) data::detail::require_batch_function<F>();
  if constexpr (data::TakesBatch<F> || data::TakesBatchAndArgs<F> || data::RowFunction<F>) {
    auto takes = data::detail::Takes::kNothing;
    if constexpr (data::detail::takes_args<F>()) {
      takes = std::same_as<data::ArgsOf<F>, Json> ? data::detail::Takes::kJson
                                                  : data::detail::Takes::kOther;
    }
    void (*target)() = nullptr;
    if constexpr (detail::is_function_pointer<F>) target = reinterpret_cast<void (*)()>(function);
    data::detail::register_named(name, &data::detail::BatchThunk<F>::invoke, target, takes);
  }
  return {name, function};
}

}  // namespace manta
