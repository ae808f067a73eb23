#include <stdexcept>
#include <typeinfo>
#include <utility>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/json_number_internal.h"
#include "manta/torch/scheduler_state_internal.h"
#include "manta/torch/user_state_internal.h"

namespace manta::detail {
namespace {

using torch::optim::LRScheduler;
using torch::optim::StepLR;
constexpr int kMaxStateDepth = 900;  // of the 1,000 levels that state.json may have
using Plateau = torch::optim::ReduceLROnPlateauScheduler;

// libtorch's schedulers have no way to ask for their state, and keep it private. The language lets
// an explicit instantiation name private members; this one hands a pointer to the member out
// through a friend of its tag.
template <class Tag, typename Tag::Type pointer>
struct Expose {
  friend typename Tag::Type member(Tag) { return pointer; }
};

// NOLINTBEGIN: one member each
#define MANTA_EXPOSE(tag, class_name, type, name) \
  struct tag {                                    \
    using Type = type class_name::*;              \
    friend Type member(tag);                      \
  };                                              \
  template struct Expose<tag, &class_name::name>

MANTA_EXPOSE(StepCount, LRScheduler, unsigned, step_count_);
MANTA_EXPOSE(StepSize, StepLR, const unsigned, step_size_);
MANTA_EXPOSE(Gamma, StepLR, const double, gamma_);
MANTA_EXPOSE(Mode, Plateau, Plateau::SchedulerMode, mode);
MANTA_EXPOSE(ModeWorse, Plateau, float, mode_worse);
MANTA_EXPOSE(Factor, Plateau, float, factor);
MANTA_EXPOSE(Patience, Plateau, int, patience);
MANTA_EXPOSE(Threshold, Plateau, double, threshold);
MANTA_EXPOSE(ThresholdKind, Plateau, Plateau::ThresholdMode, threshold_mode);
MANTA_EXPOSE(Cooldown, Plateau, int, cooldown);
MANTA_EXPOSE(CooldownCounter, Plateau, int, cooldown_counter);
MANTA_EXPOSE(MinLrs, Plateau, std::vector<float>, min_lrs);
MANTA_EXPOSE(Eps, Plateau, double, eps);
MANTA_EXPOSE(Best, Plateau, float, best);
MANTA_EXPOSE(Verbose, Plateau, bool, verbose);
MANTA_EXPOSE(LastEpoch, Plateau, int, last_epoch);
MANTA_EXPOSE(BadEpochs, Plateau, int, num_bad_epochs);
#undef MANTA_EXPOSE
// NOLINTEND

// `best` is an infinity before the first step.
Json encode(float value) { return encode_number(value); }
Json encode(double value) { return encode_number(value); }
Json encode(int value) { return value; }
Json encode(bool value) { return value; }
Json encode(Plateau::SchedulerMode value) { return value == Plateau::min ? "min" : "max"; }
Json encode(Plateau::ThresholdMode value) { return value == Plateau::rel ? "rel" : "abs"; }
Json encode(const std::vector<float>& values) {
  Json list = Json::array();
  for (float value : values) list.push_back(encode(value));
  return list;
}

[[noreturn]] void reject(const Json& value) { throw std::invalid_argument(value.dump()); }

bool from_words(const Json& value, const char* first, const char* second) {
  if (value != first && value != second) reject(value);
  return value == first;
}
void decode(const Json& value, double& to) {
  auto number = decode_number(value);
  if (!number) reject(value);
  to = *number;
}
void decode(const Json& value, float& to) {
  double number = 0;
  decode(value, number);
  to = static_cast<float>(number);
}
template <class T>
requires std::is_same_v<T, int> || std::is_same_v<T, unsigned>
void decode(const Json& value, T& to) {
  bool fits = value.is_number_unsigned()  ? std::in_range<T>(value.get<uint64_t>())
              : value.is_number_integer() ? std::in_range<T>(value.get<int64_t>())
                                          : false;
  if (!fits) reject(value);
  to = value.get<T>();
}
void decode(const Json& value, bool& to) {
  if (!value.is_boolean()) reject(value);
  to = value.get<bool>();
}
void decode(const Json& value, Plateau::SchedulerMode& to) {
  to = from_words(value, "min", "max") ? Plateau::min : Plateau::max;
}
void decode(const Json& value, Plateau::ThresholdMode& to) {
  to = from_words(value, "rel", "abs") ? Plateau::rel : Plateau::abs;
}
void decode(const Json& value, std::vector<float>& to) {
  if (!value.is_array() || value.size() != to.size()) reject(value);
  for (size_t i = 0; i < to.size(); ++i) decode(value[i], to[i]);
}

void each_member(auto& plateau, auto f) {
  f("mode", plateau.*member(Mode()));
  f("mode_worse", plateau.*member(ModeWorse()));
  f("factor", plateau.*member(Factor()));
  f("patience", plateau.*member(Patience()));
  f("threshold", plateau.*member(Threshold()));
  f("threshold_mode", plateau.*member(ThresholdKind()));
  f("cooldown", plateau.*member(Cooldown()));
  f("cooldown_counter", plateau.*member(CooldownCounter()));
  f("min_lrs", plateau.*member(MinLrs()));
  f("eps", plateau.*member(Eps()));
  f("best", plateau.*member(Best()));
  f("verbose", plateau.*member(Verbose()));
  f("last_epoch", plateau.*member(LastEpoch()));
  f("num_bad_epochs", plateau.*member(BadEpochs()));
}

const StepLR& step_lr(const LRScheduler& scheduler) {
  if (auto* known = dynamic_cast<const StepLR*>(&scheduler)) return *known;
  throw Error(
      ErrorKind::kInvalidArgument,
      manta::str("TorchCheckpoint: the state of a ", demangle(typeid(scheduler).name()),
                 " cannot be kept; only of StepLR, ReduceLROnPlateauScheduler and those "
                 "derived from manta::StatefulScheduler. Derive yours from it, or keep what "
                 "it needs with set() and get()"));
}

void check_type(const Json& description, const char* type, const std::string& what) {
  const Json& stored = description.at("type");
  if (stored == type) return;
  throw Error(ErrorKind::kInvalidArgument, manta::str(what, "the checkpoint has the state of ",
                                                      stored.dump(), ", it is a ", type));
}

template <class F>
void reading(const std::string& what, F function) {
  try {
    function();
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kCorrupt, manta::str(what, "state.json is incomplete: ", error.what()));
  } catch (const std::invalid_argument& error) {
    throw Error(ErrorKind::kCorrupt,
                manta::str(what, "state.json has ", error.what(), " where another value must be"));
  }
}

}  // namespace

Json read_scheduler(const LRScheduler& scheduler) {
  const StepLR& known = step_lr(scheduler);
  return {{"type", "StepLR"},
          {"step_count", known.*member(StepCount())},
          {"step_size", known.*member(StepSize())},
          {"gamma", encode(known.*member(Gamma()))}};
}

Json read_scheduler(const Plateau& scheduler) {
  Json description = {{"type", "ReduceLROnPlateauScheduler"}};
  each_member(scheduler,
              [&](const char* name, const auto& value) { description[name] = encode(value); });
  return description;
}

Json read_scheduler(const StatefulScheduler& scheduler) {
  std::string type = scheduler.type();
  Json state = scheduler.state();
  require_storable(type, state, kMaxStateDepth);
  Json numbers = take_odd_numbers(state);
  return {{"type", type}, {"state", std::move(state)}, {"numbers", std::move(numbers)}};
}

void write_scheduler(StatefulScheduler& scheduler, const Json& description,
                     const std::string& what) {
  reading(what, [&] { check_type(description, scheduler.type().c_str(), what); });
  Json state;
  reading(what, [&] {
    state = description.at("state");
    put_odd_numbers(state, description.at("numbers"), "state.json");
  });
  try {
    scheduler.load_state(state);
  } catch (const Error& error) {
    throw Error(error.kind(), what + error.what());
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kInvalidArgument, what + error.what());
  }
}

void write_scheduler(LRScheduler& scheduler, const Json& description, const std::string& what) {
  const StepLR& known = step_lr(scheduler);
  reading(what, [&] {
    check_type(description, "StepLR", what);
    unsigned size = 0, count = 0;
    double gamma = 0;
    decode(description.at("step_size"), size);
    decode(description.at("gamma"), gamma);
    decode(description.at("step_count"), count);
    if (size != known.*member(StepSize()) || gamma != known.*member(Gamma())) {
      throw Error(ErrorKind::kInvalidArgument,
                  manta::str(what, "it has step_size ", known.*member(StepSize()), " and gamma ",
                             known.*member(Gamma()), ", in the checkpoint they are ", size, " and ",
                             gamma, "; make it with the same"));
    }
    scheduler.*member(StepCount()) = count;
  });
}

void write_scheduler(Plateau& scheduler, const Json& description, const std::string& what) {
  reading(what, [&] {
    check_type(description, "ReduceLROnPlateauScheduler", what);
    size_t groups = (scheduler.*member(MinLrs())).size();
    if (description.at("min_lrs").size() != groups) {
      throw Error(
          ErrorKind::kInvalidArgument,
          manta::str(what, "it is for ", groups, " parameter groups, in the checkpoint for ",
                     description.at("min_lrs").size()));
    }
    auto decode_into = [&](Plateau& to) {
      each_member(to, [&](const char* name, auto& value) { decode(description.at(name), value); });
    };
    Plateau attempt = scheduler;  // errors show before the scheduler itself changes
    decode_into(attempt);
    decode_into(scheduler);
  });
}

}  // namespace manta::detail
