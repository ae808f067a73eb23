#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "manta/data/aggregate.h"
#include "manta/data/plan_function.h"
#include "manta/data/row.h"

/// Aggregates of your own, in `groupby(...).aggregate` and `Dataset::aggregate`, as Ray's
/// AggregateFn:
///
///     struct GeometricMean {
///       struct State { double logs = 0; int64_t count = 0; };  // of no rows
///       void accumulate(State& state, const Row& row) const {
///         state.logs += std::log(row.get<double>("fare"));
///         ++state.count;
///       }
///       void merge(State& state, const State& later) const {
///         state.logs += later.logs;
///         state.count += later.count;
///       }
///       std::optional<double> finalize(const State& state) const {
///         if (state.count == 0) return std::nullopt;
///         return std::exp(state.logs / state.count);
///       }
///     };
///     trips.groupby("zone").aggregate({agg::custom<GeometricMean>({"fare"}), agg::count()});
///
/// - `accumulate` takes a `Row`, or some consecutive rows at once as a
///   `std::shared_ptr<arrow::RecordBatch>`, which is much faster. They have the columns that were
///   named, nulls included.
/// - `merge` adds the state of rows that come later. A group is cut after each 32,768 of its rows,
///   and the parts are merged in their order, so that the result depends on the data alone, on any
///   number of threads.
/// - `finalize` gives a bool, a number, a text, a std::vector or a std::optional of those (nothing:
///   null), with the types that RowValue has for them. Without any row, `Dataset::aggregate` gives
///   what it makes of `State{}`.
/// - With a type `Args`, the aggregate is constructed of what was given: `custom<Q>({"x"}, args)`.
///
/// Several threads call a const aggregate at a time. Rows with equal keys are brought together by
/// sorting the columns that it needs, within the groupby's `memory_bytes`; so a group may have any
/// number of rows, and only its states are in memory.
namespace manta {
namespace data {

/// The calls of an aggregate, without its types.
class AggregateCalls {
 public:
  using State = std::shared_ptr<void>;
  virtual ~AggregateCalls() = default;
  /// Of what `finalize` gives.
  virtual std::shared_ptr<arrow::DataType> type() const = 0;
  virtual State init() const = 0;
  virtual void accumulate(const State& state, const BatchPtr& rows) const = 0;
  virtual void merge(const State& state, const State& later) const = 0;
  virtual RowValue finalize(const State& state) const = 0;
};

namespace detail {

template <class A>
concept AccumulatesBatches = requires(const A& aggregate, typename A::State& state,
                                      const BatchPtr& rows) {
  aggregate.accumulate(state, rows);
};
template <class A>
concept AccumulatesRows = requires(const A& aggregate, typename A::State& state, const Row& row) {
  aggregate.accumulate(state, row);
};
template <class A>
concept HasArgs = requires {
  typename A::Args;
};
template <class A>
constexpr bool can_be_made() {
  if constexpr (HasArgs<A>) {
    return std::constructible_from<A, const typename A::Args&>;
  } else {
    return std::default_initializable<A>;
  }
}
template <class T>
concept KnownType = std::constructible_from<RowValue, T> && !std::same_as<T, RowValue> &&
                    !std::same_as<T, RowValue::Scalar> && std::default_initializable<T>;

template <class A>
class TypedAggregateCalls final : public AggregateCalls {
 public:
  explicit TypedAggregateCalls(A aggregate) : aggregate_(std::move(aggregate)) {}

  std::shared_ptr<arrow::DataType> type() const override {
    using Given = std::decay_t<decltype(aggregate_.finalize(std::declval<const S&>()))>;
    return RowValue(Given{}).type();
  }
  State init() const override { return std::make_shared<S>(); }
  void accumulate(const State& state, const BatchPtr& rows) const override {
    if constexpr (AccumulatesBatches<A>) {
      aggregate_.accumulate(of(state), rows);
    } else {
      visit_rows(rows, [&](const Row& row) { aggregate_.accumulate(of(state), row); });
    }
  }
  void merge(const State& state, const State& later) const override {
    aggregate_.merge(of(state), std::as_const(of(later)));
  }
  RowValue finalize(const State& state) const override {
    return RowValue(aggregate_.finalize(std::as_const(of(state))));
  }

 private:
  using S = typename A::State;
  static S& of(const State& state) { return *static_cast<S*>(state.get()); }
  const A aggregate_;
};

/// Makes the aggregate that a plan calls from the data that was sent.
template <class A>
struct AggregateThunk {
  static void invoke(Invocation& call) {
    (void)&registered;
    auto bound = std::make_shared<BoundFunction>();
    bound->kind = FunctionKind::kAggregate;
    if constexpr (HasArgs<A>) {
      using Args = typename A::Args;
      auto args = std::make_shared<const Args>(from_value<Args>(*call.args));
      if constexpr (std::same_as<Args, Json>) bound->json_args = *args;
      bound->takes_args = true;
      bound->args = args;
      bound->args_type = &typeid(Args);
      bound->aggregate = std::make_shared<TypedAggregateCalls<A>>(A(*args));
    } else {
      bound->aggregate = std::make_shared<TypedAggregateCalls<A>>(A{});
    }
    *call.instance = std::move(bound);
  }
  static inline const bool registered = register_batch_thunk(&invoke);
};

/// An aggregate of these columns. `type`: its name if it has no other.
Aggregate make_custom(PlanFunction function, const std::type_info& type, const std::string& name,
                      std::vector<std::string> columns);

}  // namespace detail

/// A class that `agg::custom` takes.
template <class A>
concept CustomAggregate =
    detail::can_be_made<A>() && std::default_initializable<typename A::State> &&
    (detail::AccumulatesBatches<A> ||
     detail::AccumulatesRows<A>)&&requires(const A& aggregate, typename A::State& state,
                                           const typename A::State& later) {
  aggregate.merge(state, later);
  { aggregate.finalize(later) } -> detail::KnownType;
};

}  // namespace data

/// A custom aggregate with a name: see `named_aggregate`.
template <data::CustomAggregate A>
struct NamedAggregate {
  std::string name;
};

/// Gives a custom aggregate a name, so that a data set that uses it can be stored; as `named` does
/// for functions. Call it at namespace scope:
///
///     static const auto geometric_mean = manta::named_aggregate<GeometricMean>("geometric_mean");
///     ...
///     trips.groupby("zone").aggregate({agg::custom(geometric_mean, {"fare"})})
///
/// Its arguments are stored, too, if `Args` is `Json`.
template <data::CustomAggregate A>
NamedAggregate<A> named_aggregate(const std::string& name) {
  auto takes = data::detail::Takes::kNothing;
  if constexpr (data::detail::HasArgs<A>) {
    takes = std::same_as<typename A::Args, Json> ? data::detail::Takes::kJson
                                                 : data::detail::Takes::kOther;
  }
  data::detail::register_named(name, &data::detail::AggregateThunk<A>::invoke, nullptr, takes);
  return {name};
}

namespace agg {

/// Called "GeometricMean(fare)", or by its own name if it has one: "geometric_mean(fare)".
template <data::CustomAggregate A>
requires(!data::detail::HasArgs<A>) Aggregate
    custom(const NamedAggregate<A>& aggregate, std::vector<std::string> columns) {
  internal::Function function{detail::thunk_address<data::detail::AggregateThunk<A>>(), {}};
  return data::detail::make_custom({function, {}, aggregate.name}, typeid(A), aggregate.name,
                                   std::move(columns));
}
template <data::CustomAggregate A>
requires data::detail::HasArgs<A> Aggregate custom(const NamedAggregate<A>& aggregate,
                                                   std::vector<std::string> columns,
                                                   const typename A::Args& args) {
  internal::Function function{detail::thunk_address<data::detail::AggregateThunk<A>>(), {}};
  return data::detail::make_custom({function, internal::to_value(args), aggregate.name}, typeid(A),
                                   aggregate.name, std::move(columns));
}
template <data::CustomAggregate A>
requires(!data::detail::HasArgs<A>) Aggregate custom(std::vector<std::string> columns) {
  return custom(NamedAggregate<A>{}, std::move(columns));
}
template <data::CustomAggregate A>
requires data::detail::HasArgs<A> Aggregate custom(std::vector<std::string> columns,
                                                   const typename A::Args& args) {
  return custom(NamedAggregate<A>{}, std::move(columns), args);
}

}  // namespace agg
}  // namespace manta
