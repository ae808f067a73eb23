#include <arrow/api.h>

#include <limits>

#include "manta/data/calendar_internal.h"
#include "manta/data/compare_internal.h"
#include "manta/data/expression_function_internal.h"
#include "manta/data/time_parts_internal.h"
#include "manta/data/validity_internal.h"

namespace manta {
namespace data {
namespace {

using arrow::Datum;
using arrow::Type;
using ArrayPtr = std::shared_ptr<arrow::Array>;

// No time zone has rules for years beyond these, and Arrow's calendar ends there.
constexpr int64_t kFarthestZonedSecond = int64_t{32'000} * 366 * 86400;

/// Counts of a unit since 1970, or since midnight.
struct Times {
  ArrayPtr counts;  ///< int64
  int64_t per_second = 1;

  const int64_t* values() const { return counts->data()->GetValues<int64_t>(1); }
};

Times counts_of(Evaluator& evaluator, const ArrayPtr& timestamps) {
  auto unit = static_cast<const arrow::TimestampType&>(*timestamps->type()).unit();
  return {evaluator.get(timestamps->View(arrow::int64())), per_second(unit)};
}

// Converts to timestamps; a day is its midnight.
ArrayPtr as_timestamps(Evaluator& evaluator, const ExpressionNode& node, Datum time) {
  if (time.type()->id() == Type::NA) {
    time = evaluator.promote(time, arrow::timestamp(arrow::TimeUnit::SECOND));
  }
  if (!is_time_or_date(*time.type())) evaluator.throw_types(node, "it needs timestamps");
  if (time.type()->id() == Type::TIMESTAMP) return evaluator.as_array(time);
  return evaluator.as_array(evaluator.promote(time, arrow::timestamp(arrow::TimeUnit::MILLI)));
}

void require_near(Evaluator& evaluator, const ExpressionNode& node, const Times& times) {
  for (int64_t i = 0; i < times.counts->length(); ++i) {
    int64_t seconds = times.values()[i] / times.per_second;
    if (times.counts->IsValid(i) &&
        (seconds > kFarthestZonedSecond || seconds < -kFarthestZonedSecond)) {
      evaluator.fail(str(to_string(node), " of a time that is ", seconds,
                         " seconds from 1970, too far away to know the local time"));
    }
  }
}

Times local_times(Evaluator& evaluator, const ExpressionNode& node, const Datum& time) {
  auto times = as_timestamps(evaluator, node, time);
  Times counts = counts_of(evaluator, times);
  if (static_cast<const arrow::TimestampType&>(*times->type()).timezone().empty()) return counts;
  require_near(evaluator, node, counts);
  return counts_of(evaluator, evaluator.call("local_timestamp", {times}).make_array());
}

Times times_of_day(Evaluator& evaluator, const ExpressionNode& node, const Datum& time) {
  if (meaning_of(*time.type()) != Meaning::kTimeOfDay) return local_times(evaluator, node, time);
  auto array = evaluator.as_array(time);
  int64_t units = per_second(static_cast<const arrow::TimeType&>(*array->type()).unit());
  bool narrow = array->type_id() == Type::TIME32;
  auto stored = evaluator.get(array->View(narrow ? arrow::int32() : arrow::int64()));
  return {evaluator.as_array(evaluator.promote(stored, arrow::int64())), units};
}

// A column of int32 or date32 that is null where one of the two inputs is null.
template <class Fill>
Datum make_column(Evaluator& evaluator, const std::shared_ptr<arrow::DataType>& type,
                  const arrow::Array& a, const arrow::Array& b, Fill&& fill) {
  auto values = evaluator.get(arrow::AllocateBuffer(a.length() * 4));
  fill(reinterpret_cast<int32_t*>(values->mutable_data()));
  auto valid = valid_in_both(a, b);
  int64_t nulls = valid ? arrow::kUnknownNullCount : 0;
  return Datum(arrow::ArrayData::Make(
      type, a.length(), {std::move(valid), std::shared_ptr<arrow::Buffer>(std::move(values))},
      nulls));
}

// `part(unit, count)` of each time.
template <class Part>
Datum parts(Evaluator& evaluator, const Times& times, Part part) {
  return make_column(evaluator, arrow::int32(), *times.counts, *times.counts, [&](int32_t* out) {
    with_unit(times.per_second, [&](auto unit) {
      const int64_t* values = times.values();
      for (int64_t i = 0; i < times.counts->length(); ++i) {
        out[i] = static_cast<int32_t>(part(unit, values[i]));
      }
    });
  });
}

template <class Part>
Datum part_of_day(Evaluator& evaluator, const ExpressionNode& node, Part part) {
  return parts(evaluator, times_of_day(evaluator, node, evaluator.operand(node, 0)),
               [part](auto unit, int64_t time) { return part(unit, unit.time_of_day(time)); });
}

template <class Part>
Datum part_of_date(Evaluator& evaluator, const ExpressionNode& node, Part part) {
  return parts(evaluator, local_times(evaluator, node, evaluator.operand(node, 0)),
               [part](auto unit, int64_t time) { return part(unit.day(time)); });
}

// Of a day; where the result may not fit into 32 bits.
template <class Part>
Datum checked_part(Evaluator& evaluator, const ExpressionNode& node,
                   const std::shared_ptr<arrow::DataType>& type, Part part) {
  Times times = local_times(evaluator, node, evaluator.operand(node, 0));
  return make_column(evaluator, type, *times.counts, *times.counts, [&](int32_t* out) {
    with_unit(times.per_second, [&](auto unit) {
      for (int64_t i = 0; i < times.counts->length(); ++i) {
        int64_t value = part(unit.day(times.values()[i]));
        if (!std::in_range<int32_t>(value) && times.counts->IsValid(i)) {
          evaluator.fail(str(to_string(node), ": ", value, " does not fit into 32 bits"));
        }
        out[i] = static_cast<int32_t>(value);
      }
    });
  });
}

Datum seconds_without_days(Evaluator& evaluator, const ExpressionNode& node) {
  auto from = as_timestamps(evaluator, node, evaluator.operand(node, 0));
  auto to = as_timestamps(evaluator, node, evaluator.operand(node, 1));
  require_same_zones(evaluator, node, *from->type(), *to->type());
  Times begin = counts_of(evaluator, from), end = counts_of(evaluator, to);
  return make_column(evaluator, arrow::int32(), *from, *to, [&](int32_t* out) {
    seconds_of_difference(begin.values(), begin.per_second, end.values(), end.per_second,
                          from->length(), out);
  });
}

Datum seconds_of_duration(Evaluator& evaluator, const ExpressionNode& node) {
  Datum duration = evaluator.operand(node, 0);
  if (duration.type()->id() == Type::NA) return evaluator.promote(duration, arrow::float64());
  if (duration.type()->id() != Type::DURATION) {
    evaluator.throw_types(node, "it needs durations, such as the difference of two times");
  }
  auto unit = static_cast<const arrow::DurationType&>(*duration.type()).unit();
  Datum counts = evaluator.get(evaluator.as_array(duration)->View(arrow::int64()));
  return evaluator.call("divide", {evaluator.promote(counts, arrow::float64()),
                                   Datum(static_cast<double>(per_second(unit)))});
}

using E = Evaluator;
using N = const ExpressionNode;

// The `n`th group of three digits after the second.
template <int64_t kUnits>
int64_t thousandth(int64_t time_of_day, int64_t per_second) {
  if (per_second < kUnits) return 0;
  return time_of_day / (per_second / kUnits) % 1000;
}

constexpr ExpressionFunction kTimeFunctions[] = {
    {"year", 1, 1,
     [](E& e, N& n) {
       return checked_part(e, n, arrow::int32(),
                           [](int64_t day) { return calendar_day(day).year; });
     }},
    {"quarter", 1, 1,
     [](E& e, N& n) {
       return part_of_date(e, n, [](int64_t day) { return (calendar_day(day).month + 2) / 3; });
     }},
    {"month", 1, 1,
     [](E& e, N& n) {
       return part_of_date(e, n, [](int64_t day) { return calendar_day(day).month; });
     }},
    {"week", 1, 1,
     [](E& e, N& n) { return part_of_date(e, n, [](int64_t day) { return iso_week(day); }); }},
    {"day", 1, 1,
     [](E& e, N& n) {
       return part_of_date(e, n, [](int64_t day) { return calendar_day(day).day; });
     }},
    {"day_of_year", 1, 1,
     [](E& e, N& n) {
       return part_of_date(
           e, n, [](int64_t day) { return day - first_day_of(calendar_day(day).year) + 1; });
     }},
    {"day_of_week", 1, 1,
     [](E& e, N& n) { return part_of_date(e, n, [](int64_t day) { return weekday(day); }); }},
    {"hour", 1, 1,
     [](E& e, N& n) {
       return part_of_day(e, n, [](auto unit, int64_t t) { return t / unit.kOfSecond / 3600; });
     }},
    {"minute", 1, 1,
     [](E& e, N& n) {
       return part_of_day(e, n, [](auto unit, int64_t t) { return t / unit.kOfSecond / 60 % 60; });
     }},
    {"second", 1, 1,
     [](E& e, N& n) {
       return part_of_day(e, n, [](auto unit, int64_t t) { return t / unit.kOfSecond % 60; });
     }},
    {"millisecond", 1, 1,
     [](E& e, N& n) {
       return part_of_day(e, n,
                          [](auto unit, int64_t t) { return thousandth<1000>(t, unit.kOfSecond); });
     }},
    {"microsecond", 1, 1,
     [](E& e, N& n) {
       return part_of_day(
           e, n, [](auto unit, int64_t t) { return thousandth<1000000>(t, unit.kOfSecond); });
     }},
    {"nanosecond", 1, 1,
     [](E& e, N& n) {
       return part_of_day(
           e, n, [](auto unit, int64_t t) { return thousandth<1000000000>(t, unit.kOfSecond); });
     }},
    {"date", 1, 1,
     [](E& e, N& n) {
       return checked_part(e, n, arrow::date32(), [](int64_t day) { return day; });
     }},
    {"total_seconds", 1, 1, seconds_of_duration},
    {"seconds_between", 2, 2, seconds_without_days},
};

}  // namespace

std::span<const ExpressionFunction> time_functions() { return kTimeFunctions; }

}  // namespace data

using data::call_function;

Expression Expression::year() const { return call_function("year", {*this}); }
Expression Expression::quarter() const { return call_function("quarter", {*this}); }
Expression Expression::month() const { return call_function("month", {*this}); }
Expression Expression::week() const { return call_function("week", {*this}); }
Expression Expression::day() const { return call_function("day", {*this}); }
Expression Expression::day_of_year() const { return call_function("day_of_year", {*this}); }
Expression Expression::day_of_week() const { return call_function("day_of_week", {*this}); }
Expression Expression::hour() const { return call_function("hour", {*this}); }
Expression Expression::minute() const { return call_function("minute", {*this}); }
Expression Expression::second() const { return call_function("second", {*this}); }
Expression Expression::millisecond() const { return call_function("millisecond", {*this}); }
Expression Expression::microsecond() const { return call_function("microsecond", {*this}); }
Expression Expression::nanosecond() const { return call_function("nanosecond", {*this}); }
Expression Expression::date() const { return call_function("date", {*this}); }
Expression Expression::total_seconds() const { return call_function("total_seconds", {*this}); }
Expression hour(const Expression& time) { return time.hour(); }
Expression day_of_week(const Expression& time) { return time.day_of_week(); }
Expression seconds_between(const Expression& begin, const Expression& end) {
  return call_function("seconds_between", {begin, end});
}

}  // namespace manta
