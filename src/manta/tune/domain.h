#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "manta/base/json.h"
#include "manta/tune/random.h"

namespace manta::tune {

/// Real numbers of [lo, hi).
struct RealRange {
  double lo = 0, hi = 1;
  bool log = false;  ///< Their logarithm is uniform.
  double step = 0;   ///< Above 0: its multiples in [lo, hi] only.
  bool operator==(const RealRange&) const = default;
};

/// Whole numbers of [lo, hi).
struct IntegerRange {
  int64_t lo = 0, hi = 1;
  bool log = false;
  int64_t step = 1;  ///< Above 1: its multiples in [lo, hi] only.
  bool operator==(const IntegerRange&) const = default;
};

/// Real numbers with a normal distribution.
struct Normal {
  double mean = 0, sd = 1;
  double step = 0;
  bool operator==(const Normal&) const = default;
};

/// What a function draws.
struct SampleFrom {
  using Function = Json (*)(const Json& resolved, Random& random);
  Function function = nullptr;
  bool operator==(const SampleFrom&) const = default;
};

/// Where a value is drawn from: a leaf of a search space. (`choice` and `grid_search` are in
/// space.h, as their values may be spaces.)
class Domain {
 public:
  using Kind = std::variant<RealRange, IntegerRange, Normal, SampleFrom>;
  /// Throws Error(kInvalidArgument) if nothing can be drawn from it.
  explicit Domain(Kind kind);

  const Kind& kind() const { return kind_; }
  bool draws_integers() const { return std::holds_alternative<IntegerRange>(kind_); }
  /// `resolved` is for SampleFrom only.
  Json draw(Random& random, const Json& resolved = {}) const;
  /// As it is written: "loguniform(0.0001, 0.1)".
  std::string to_string() const;
  /// For files; null if it cannot be stored, such as a function.
  Json to_json() const;
  /// Throws Error(kCorrupt) that begins with `document`.
  static Domain from_json(const Json& json, const std::string& document);

  bool operator==(const Domain&) const = default;

 private:
  Kind kind_;
};

/// From [lo, hi), each equally likely.
Domain uniform(double lo, double hi);
/// A multiple of q in [lo, hi], each equally likely. (Ray's ends are half as likely.)
Domain quniform(double lo, double hi, double q);
/// From [lo, hi), lo above 0: each order of magnitude is equally likely.
Domain loguniform(double lo, double hi);
/// The same, rounded to the nearest multiple of q in [lo, hi].
Domain qloguniform(double lo, double hi, double q);
/// With a normal distribution.
Domain randn(double mean = 0, double sd = 1);
/// The same, rounded to the nearest multiple of q.
Domain qrandn(double mean, double sd, double q);
/// A whole number from [lo, hi): hi is excluded.
Domain randint(int64_t lo, int64_t hi);
/// A multiple of q in [lo, hi], each equally likely: hi is included if it is one.
Domain qrandint(int64_t lo, int64_t hi, int64_t q);
/// A whole number from [lo, hi), lo above 0: each order of magnitude is equally likely.
Domain lograndint(int64_t lo, int64_t hi);
/// The same, rounded to the nearest multiple of q in [lo, hi].
Domain qlograndint(int64_t lo, int64_t hi, int64_t q);
/// What `function`, a plain function or a lambda without captures, returns. It sees the values of
/// the configuration that are already drawn: all except those of later `sample_from`s, in the order
/// of their paths. Called in the driver.
Domain sample_from(SampleFrom::Function function);

}  // namespace manta::tune
