#include "manta/tune/domain.h"

#include <algorithm>
#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"

namespace manta::tune {
namespace {

constexpr int64_t kMostInteger = int64_t{1} << 53;  // integers up to it are exact in a double

[[noreturn]] void refuse(const std::string& domain, const std::string& why) {
  throw Error(ErrorKind::kInvalidArgument, str(domain, ": ", why));
}

void check_range(const std::string& domain, double lo, double hi, bool log) {
  if (!std::isfinite(lo) || !std::isfinite(hi)) refuse(domain, "the ends must be finite");
  if (!(lo < hi)) refuse(domain, "the first end must be below the second");
  if (log && lo <= 0) {
    refuse(domain,
           "the first end must be above 0 (give the values themselves, not their "
           "logarithms)");
  }
}

double round_to(double value, double step) { return std::round(value / step) * step; }

// The multiples of `step` that lie between the ends.
std::pair<double, double> multiples(double lo, double hi, double step) {
  return {std::ceil(lo / step) * step, std::floor(hi / step) * step};
}

double between(double lo, double hi, bool log, double share) {
  if (!log) return std::min(lo + share * (hi - lo), std::nextafter(hi, lo));
  double value = std::exp(std::log(lo) + share * (std::log(hi) - std::log(lo)));
  return std::clamp(value, lo, std::nextafter(hi, lo));
}

struct Check {
  const std::string& text;
  void operator()(const RealRange& range) const {
    check_range(text, range.lo, range.hi, range.log);
    if (!std::isfinite(range.step) || range.step < 0) refuse(text, "the step must be above 0");
    if (range.step == 0) return;
    auto [least, most] = multiples(range.lo, range.hi, range.step);
    if (least > most) refuse(text, "no multiple of the step lies between the ends");
    if ((most - least) / range.step > static_cast<double>(kMostInteger))
      refuse(text, "the step is too small");
  }
  void operator()(const IntegerRange& range) const {
    check_range(text, static_cast<double>(range.lo), static_cast<double>(range.hi), range.log);
    if (range.lo < -kMostInteger || range.hi > kMostInteger)
      refuse(text, "the ends must be within 2^53");
    if (range.step < 1) refuse(text, "the step must be at least 1");
    auto [least, most] = multiples(static_cast<double>(range.lo), static_cast<double>(range.hi),
                                   static_cast<double>(range.step));
    if (least > most) refuse(text, "no multiple of the step lies between the ends");
  }
  void operator()(const Normal& normal) const {
    if (!std::isfinite(normal.mean) || !std::isfinite(normal.sd) || normal.sd <= 0)
      refuse(text, "the mean must be finite and the standard deviation above 0");
    if (!std::isfinite(normal.step) || normal.step < 0) refuse(text, "the step must be above 0");
  }
  void operator()(const SampleFrom& from) const {
    if (!from.function) refuse(text, "there is no function");
  }
};

struct Draw {
  Random& random;
  const Json& resolved;
  Json operator()(const RealRange& range) const {
    if (range.step > 0) return multiple(range.lo, range.hi, range.log, range.step);
    return between(range.lo, range.hi, range.log, random.uniform());
  }
  Json operator()(const IntegerRange& range) const {
    auto lo = static_cast<double>(range.lo), hi = static_cast<double>(range.hi);
    if (range.step > 1) {
      return static_cast<int64_t>(multiple(lo, hi, range.log, static_cast<double>(range.step)));
    }
    if (range.log) return static_cast<int64_t>(between(lo, hi, true, random.uniform()));
    auto count = static_cast<uint64_t>(range.hi) - static_cast<uint64_t>(range.lo);
    return range.lo + static_cast<int64_t>(random.integer(count));
  }
  Json operator()(const Normal& normal) const {
    double value = normal.mean + normal.sd * random.normal();
    return normal.step == 0 ? value : round_to(value, normal.step);
  }
  Json operator()(const SampleFrom& from) const { return from.function(resolved, random); }

  double multiple(double lo, double hi, bool log, double step) const {
    auto [least, most] = multiples(lo, hi, step);
    if (log)
      return std::clamp(round_to(between(lo, hi, true, random.uniform()), step), least, most);
    auto count = static_cast<uint64_t>(std::round((most - least) / step)) + 1;
    return std::min(least + static_cast<double>(random.integer(count)) * step, most);
  }
};

struct Text {
  std::string operator()(const RealRange& range) const {
    std::string name = str(range.step == 0 ? "" : "q", range.log ? "loguniform" : "uniform");
    return str(name, "(", range.lo, ", ", range.hi, range.step == 0 ? "" : str(", ", range.step),
               ")");
  }
  std::string operator()(const IntegerRange& range) const {
    std::string name = str(range.step == 1 ? "" : "q", range.log ? "lograndint" : "randint");
    return str(name, "(", range.lo, ", ", range.hi, range.step == 1 ? "" : str(", ", range.step),
               ")");
  }
  std::string operator()(const Normal& normal) const {
    return str(normal.step == 0 ? "randn(" : "qrandn(", normal.mean, ", ", normal.sd,
               normal.step == 0 ? "" : str(", ", normal.step), ")");
  }
  std::string operator()(const SampleFrom&) const { return "sample_from(a function)"; }
};

struct ToJson {
  Json operator()(const RealRange& range) const {
    return {
        {"real", {{"lo", range.lo}, {"hi", range.hi}, {"log", range.log}, {"step", range.step}}}};
  }
  Json operator()(const IntegerRange& range) const {
    return {{"integer",
             {{"lo", range.lo}, {"hi", range.hi}, {"log", range.log}, {"step", range.step}}}};
  }
  Json operator()(const Normal& normal) const {
    return {{"normal", {{"mean", normal.mean}, {"sd", normal.sd}, {"step", normal.step}}}};
  }
  Json operator()(const SampleFrom&) const { return nullptr; }
};

}  // namespace

Domain::Domain(Kind kind) : kind_(kind) {
  std::string text = to_string();
  std::visit(Check{text}, kind_);
}

Json Domain::draw(Random& random, const Json& resolved) const {
  return std::visit(Draw{random, resolved}, kind_);
}

std::string Domain::to_string() const { return std::visit(Text(), kind_); }

Json Domain::to_json() const { return std::visit(ToJson(), kind_); }

Domain Domain::from_json(const Json& json, const std::string& document) {
  JsonFields fields(json, document);
  constexpr double kMost = 1e308;
  try {
    if (fields.has("real")) {
      JsonFields range = fields.object("real");
      return Domain(RealRange{range.number("lo", -kMost, kMost), range.number("hi", -kMost, kMost),
                              range.boolean("log"), range.number("step", 0, kMost)});
    }
    if (fields.has("integer")) {
      JsonFields range = fields.object("integer");
      return Domain(IntegerRange{range.integer("lo", -kMostInteger, kMostInteger),
                                 range.integer("hi", -kMostInteger, kMostInteger),
                                 range.boolean("log"), range.integer("step", 1, kMostInteger)});
    }
    JsonFields normal = fields.object("normal");
    return Domain(Normal{normal.number("mean", -kMost, kMost), normal.number("sd", 0, kMost),
                         normal.number("step", 0, kMost)});
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCorrupt) throw;
    throw Error(ErrorKind::kCorrupt, str(document, " is damaged: ", error.what()));
  }
}

namespace {

// 0 means "not rounded" in a domain, so a user must not give it as a step.
template <class T>
T step_of(const char* name, T q) {
  if (q > 0) return q;
  throw Error(ErrorKind::kInvalidArgument, str(name, ": q must be above 0 (was ", q, ")"));
}

}  // namespace

Domain uniform(double lo, double hi) { return Domain(RealRange{lo, hi, false, 0}); }
Domain quniform(double lo, double hi, double q) {
  return Domain(RealRange{lo, hi, false, step_of("quniform", q)});
}
Domain loguniform(double lo, double hi) { return Domain(RealRange{lo, hi, true, 0}); }
Domain qloguniform(double lo, double hi, double q) {
  return Domain(RealRange{lo, hi, true, step_of("qloguniform", q)});
}
Domain randn(double mean, double sd) { return Domain(Normal{mean, sd, 0}); }
Domain qrandn(double mean, double sd, double q) {
  return Domain(Normal{mean, sd, step_of("qrandn", q)});
}
Domain randint(int64_t lo, int64_t hi) { return Domain(IntegerRange{lo, hi, false, 1}); }
Domain lograndint(int64_t lo, int64_t hi) { return Domain(IntegerRange{lo, hi, true, 1}); }
Domain qlograndint(int64_t lo, int64_t hi, int64_t q) {
  return Domain(IntegerRange{lo, q == 1 ? hi + 1 : hi, true, step_of("qlograndint", q)});
}
Domain qrandint(int64_t lo, int64_t hi, int64_t q) {
  return Domain(IntegerRange{lo, q == 1 ? hi + 1 : hi, false, step_of("qrandint", q)});
}
Domain sample_from(SampleFrom::Function function) { return Domain(SampleFrom{function}); }

}  // namespace manta::tune
