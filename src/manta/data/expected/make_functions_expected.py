"""What DuckDB, NumPy and Python compute for the functions of functions_test.cc: writes functions.inc beside this file.

Run it with a Python that has numpy, pyarrow and duckdb, when a case is added:  python make_functions_expected.py
"""

import json
import math
import random
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

random.seed(12)
ROWS = 60
TEXTS = ["", "a", "Abc", "  abc  ", "ÄÖÜ straße", "éa", "日本語", "\tx\n", "abcabc", "ABC", "z\u00a0", "😀 b"]
TIMES = [0, -1, 1, 951782400 * 10**6, 951868800 * 10**6 - 1, 1577836800 * 10**6, 1609459199999999, -2208988800 * 10**6,
         4107542400 * 10**6, -62135596800 * 10**6, 1230768000 * 10**6 + 123456]


def some(values):
    return [None if random.random() < 0.15 else random.choice(values) for _ in range(ROWS)]


INTS = [0, 1, -1, 2, 7, -7, 10, 15, 25, 35, -25, 100, 12345, -99999, 2**31, -(2**31), 2**53 + 1, -(2**53) - 1]
FLOATS = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -2.5, 0.1, 3.14159, -1e-9, 1e10, 123.456, -987.654321, 4.0, 2.675]
COLUMNS = {
    "i": ("int64", some(INTS)),
    "j": ("int64", some([v for v in INTS if v != 0])),
    "k": ("int32", some([-100, -3, 0, 3, 5, 2**31 - 1])),
    "u": ("uint8", some([0, 1, 3, 200, 255])),
    "f": ("float64", some(FLOATS)),
    "g": ("float64", some(FLOATS + [0.25, -0.75])),
    "h": ("float32", some([0.5, -1.25, 3.0, 0.0])),
    "p": ("float64", some([0.5, 1.0, 2.0, 10.0, 1e-3])),
    "q": ("float64", some([-1.0, -0.5, 0.0, 0.25, 1.0])),
    "s": ("string", some(TEXTS)),
    "r": ("string", some(["a", "bc", "", "c", "ß", "語"])),
    "t": ("timestamp[us]", some(TIMES + [random.randrange(-3 * 10**15, 5 * 10**15) for _ in range(20)])),
    "v": ("timestamp[us]", some([random.randrange(0, 2 * 10**15) for _ in range(20)])),
    "m": ("timestamp[ms]", some([random.randrange(0, 2 * 10**12) for _ in range(20)])),
    "n": ("timestamp[ns]", some([random.randrange(0, 2 * 10**18) for _ in range(20)])),
    "d": ("duration[us]", some([random.randrange(-10**12, 10**12) for _ in range(20)])),
    "w": ("date32", some([0, -1, 18262, 11016, -100000, 11015])),
    "b": ("bool", some([True, False])),
}
TABLE = pa.table({name: (pa.array(values, pa.type_for_alias(kind.replace("float64", "double").replace("float32", "float")))
                         if "[" not in kind else pa.array(values, pa.int64()).cast(
                             pa.duration("us") if kind.startswith("duration") else pa.timestamp(kind[10:-1])))
                  for name, (kind, values) in COLUMNS.items()})
DUCK = duckdb.connect()
DUCK.register("data", TABLE)


def sql(text):
    """The values that DuckDB computes, in the order of the rows."""
    values = DUCK.sql(f"select {text} from data").to_arrow_table().column(0)
    if pa.types.is_decimal(values.type) or str(values.type).startswith("int") or str(values.type).startswith("uint"):
        values = values.cast(pa.int64())
    if str(values.type).startswith(("timestamp", "duration", "time64")):
        values = values.cast(pa.int64())
    return values.to_pylist()


def rows(function, *names):
    """A Python function on each row; null if an argument is."""
    columns = [COLUMNS[name][1] for name in names]
    return [None if any(v is None for v in row) else function(*row) for row in zip(*columns)]


def times(part, name="t"):
    """A part of a time, by Python's own calendar through numpy."""
    unit = COLUMNS[name][0][10:-1]
    return [None if v is None else part(np.datetime64(v, unit)) for v in COLUMNS[name][1]]


def day(moment):
    return int(moment.astype("datetime64[D]").astype(int))


def calendar(moment):
    text = str(moment.astype("datetime64[D]"))  # also of negative years
    year, month, day_of_month = text.rsplit("-", 2)
    return int(year), int(month), int(day_of_month)


def since(moment, unit):
    return int((moment - moment.astype(f"datetime64[{unit}]")).astype("timedelta64[ns]").astype(int))


def iso_week(moment):
    number = day(moment) + 719163  # of date.toordinal; 400 years are whole weeks
    import datetime
    return datetime.date.fromordinal((number - 1) % 146097 + 1 + 146097).isocalendar()[1]


def safe(function):
    def run(*arguments):
        try:
            return float(function(*arguments))
        except (ValueError, OverflowError, ZeroDivisionError):
            with np.errstate(all="ignore"):
                return float(getattr(np, {"log": "log"}.get(function.__name__, function.__name__))(*arguments))

    return run


def col(name):
    return {"col": name}


def lit(value):
    return {"lit": value}


def op(name, *arguments):
    return {"op": name, "args": [col(a) if isinstance(a, str) else a if isinstance(a, dict) else lit(a) for a in arguments]}


def even_round(value, digits):
    return float(np.round(value, digits))


def int_round(value, digits):
    return int(round(value, digits))


CASES = [
    ("int64", op("modulo", "i", "j"), sql("i % j")),
    ("int64", op("modulo", "i", 7), sql("i % 7")),
    ("int64", op("modulo", "k", -3), sql("k % -3")),
    ("double", op("modulo", "f", "p"), rows(math.fmod, "f", "p")),
    ("double", op("modulo", "i", "p"), rows(math.fmod, "i", "p")),
    ("int64", op("abs", "i"), sql("abs(i)")),
    ("double", op("abs", "f"), rows(abs, "f")),
    ("int64", op("sign", "i"), sql("sign(i)")),
    ("double", op("sign", "f"), rows(lambda x: float(np.sign(x)), "f")),
    ("double", op("floor", "f"), rows(lambda x: float(math.floor(x)), "f")),
    ("double", op("ceil", "f"), rows(lambda x: float(math.ceil(x)), "f")),
    ("int64", op("floor", "i"), rows(lambda x: x, "i")),
    ("double", op("round", "f", 0), rows(lambda x: even_round(x, 0), "f")),
    ("double", op("round", "f", 2), rows(lambda x: even_round(x, 2), "f")),
    ("double", op("round", "f", -1), rows(lambda x: even_round(x, -1), "f")),
    ("int64", op("round", "i", -1), rows(lambda x: int_round(x, -1), "i")),
    ("int64", op("round", "i", -3), rows(lambda x: int_round(x, -3), "i")),
    ("int64", op("round", "i", 3), rows(lambda x: x, "i")),
    ("double", op("sqrt", "p"), rows(safe(math.sqrt), "p")),
    ("double", op("sqrt", "q"), rows(safe(math.sqrt), "q")),
    ("double", op("exp", "g"), rows(safe(math.exp), "g")),
    ("double", op("log", "p"), rows(safe(math.log), "p")),
    ("double", op("log", "q"), rows(safe(math.log), "q")),
    ("double", op("log2", "p"), rows(safe(math.log2), "p")),
    ("double", op("log10", "i"), rows(safe(math.log10), "i")),
    ("double", op("log1p", "q"), rows(safe(math.log1p), "q")),
    ("double", op("pow", "p", "q"), rows(safe(math.pow), "p", "q")),
    ("double", op("pow", "k", 2), rows(lambda x: math.pow(x, 2), "k")),
    ("double", op("atan2", "f", "q"), rows(safe(math.atan2), "f", "q")),
    ("int64", op("length", "s"), rows(len, "s")),
    ("string", op("lower", "s"), sql("lower(s)")),
    ("string", op("upper", "r"), rows(lambda x: "ẞ" if x == "ß" else x.upper(), "r")),
    ("string", op("trim", "s"), rows(str.strip, "s")),
    ("string", op("trim_start", "s"), rows(str.lstrip, "s")),
    ("string", op("trim_end", "s"), rows(str.rstrip, "s")),
    ("bool", op("contains", "s", "r"), sql("contains(s, r)")),
    ("bool", op("contains", "s", lit("bc")), sql("contains(s, 'bc')")),
    ("bool", op("starts_with", "s", "r"), sql("starts_with(s, r)")),
    ("bool", op("starts_with", "s", lit("ab")), sql("starts_with(s, 'ab')")),
    ("bool", op("ends_with", "s", "r"), sql("ends_with(s, r)")),
    ("string", op("substring", "s", 1), rows(lambda x: x[1:], "s")),
    ("string", op("substring", "s", 1, 2), rows(lambda x: x[1:3], "s")),
    ("string", op("substring", "s", -2), rows(lambda x: x[-2:], "s")),
    ("string", op("substring", "s", -3, 2), rows(lambda x: x[-3:-1], "s")),
    ("string", op("substring", "s", -3, 5), rows(lambda x: x[-3:], "s")),
    ("string", op("substring", "s", 2, 0), rows(lambda x: "", "s")),
    ("string", op("add", "s", "r"), sql("s || r")),
    ("string", op("add", op("add", "s", lit("-")), "r"), sql("s || '-' || r")),
    ("int32", op("year", "t"), times(lambda t: calendar(t)[0])),
    ("int32", op("month", "t"), times(lambda t: calendar(t)[1])),
    ("int32", op("quarter", "t"), times(lambda t: (calendar(t)[1] + 2) // 3)),
    ("int32", op("day", "t"), times(lambda t: calendar(t)[2])),
    ("int32", op("day_of_year", "t"),
     times(lambda t: int((t.astype("datetime64[D]") - t.astype("datetime64[Y]").astype("datetime64[D]")).astype(int)) + 1)),
    ("int32", op("week", "t"), times(iso_week)),
    ("int32", op("day_of_week", "t"), times(lambda t: (day(t) + 3) % 7)),
    ("int32", op("hour", "t"), times(lambda t: since(t, "D") // (3600 * 10**9))),
    ("int32", op("minute", "t"), times(lambda t: since(t, "h") // (60 * 10**9))),
    ("int32", op("second", "t"), times(lambda t: since(t, "m") // 10**9)),
    ("int32", op("millisecond", "n"), times(lambda t: since(t, "s") // 10**6, "n")),
    ("int32", op("microsecond", "n"), times(lambda t: since(t, "ms") // 1000, "n")),
    ("int32", op("nanosecond", "n"), times(lambda t: since(t, "us"), "n")),
    ("int32", op("millisecond", "m"), times(lambda t: since(t, "s") // 10**6, "m")),
    ("int32", op("microsecond", "m"), times(lambda t: 0, "m")),
    ("int32", op("year", "w"), sql("year(w)")),
    ("int32", op("week", "w"), sql("week(w)")),
    ("int32", op("day_of_year", "w"), sql("dayofyear(w)")),
    ("date32[day]", op("date", "t"), times(day)),
    ("duration[us]", op("subtract", "t", "v"), rows(lambda a, b: a - b, "t", "v")),
    ("duration[ns]", op("subtract", "n", "m"), rows(lambda a, b: a - b * 10**6, "n", "m")),
    ("timestamp[us]", op("add", "t", "d"), rows(lambda a, b: a + b, "t", "d")),
    ("timestamp[us]", op("subtract", "m", "d"), rows(lambda a, b: a * 1000 - b, "m", "d")),
    ("timestamp[us]", op("add", "w", "d"), rows(lambda a, b: a * 86400 * 10**6 + b, "w", "d")),
    ("duration[us]", op("add", "d", {"duration": 90, "unit": "s"}), rows(lambda a: a + 90 * 10**6, "d")),
    ("duration[us]", op("multiply", "d", "u"), rows(lambda a, b: a * b, "d", "u")),
    ("duration[us]", op("negate", "d"), rows(lambda a: -a, "d")),
    ("double", op("divide", "d", {"duration": 1, "unit": "s"}), rows(lambda a: a / 10**6, "d")),
    ("double", op("total_seconds", "d"), rows(lambda a: a / 10**6, "d")),
    ("bool", op("less", "d", {"duration": 3, "unit": "s"}), rows(lambda a: a < 3 * 10**6, "d")),
    ("bool", op("is_in", "i", 1, 7, 2.5, -7), sql("i in (1, 7, -7)")),
    ("bool", op("is_in", "f", 0, 0.5, 123.456), sql("f in (0, 0.5, 123.456)")),
    ("bool", op("is_in", "h", 0.5, 0.1, 3), sql("h::double in (0.5, 0.1, 3)")),
    ("bool", op("is_in", "u", 255, 256, -1, 3), sql("u in (255, 3)")),
    ("bool", op("is_in", "s", lit("abcabc"), lit("éa"), lit("no")), sql("s in ('abcabc', 'éa', 'no')")),
    ("bool", op("is_in", "b", True), sql("b in (true)")),
    ("bool", op("is_in", "w", lit("2000-02-29"), lit("1970-01-01")), sql("w in (date '2000-02-29', date '1970-01-01')")),
    ("int64", op("if_else", op("less", "i", "j"), "i", "j"), sql("case when i < j then i else j end")),
    ("int64", op("if_else", "b", "i", 0), sql("case when b then i else 0 end")),
    ("double", op("if_else", "b", "i", "p"), sql("case when b then i::double else p end")),
    ("string", op("if_else", op("less", "i", 0), lit("low"), op("less", "i", 10), lit("middle"), lit("high")),
     sql("case when i < 0 then 'low' when i < 10 then 'middle' else 'high' end")),
    ("int64", op("coalesce", "i", "j", 5), sql("coalesce(i, j, 5)")),
    ("int32", op("coalesce", "k", 5), sql("coalesce(k, 5)")),
    ("double", op("coalesce", "k", 0.5), sql("coalesce(k::double, 0.5::double)")),
    ("string", op("coalesce", "s", "r", lit("?")), sql("coalesce(s, r, '?')")),
    ("int64", op("min_of", "i", "j"), rows(min, "i", "j")),
    ("double", op("max_of", "f", "g"), rows(max, "f", "g")),
    ("float", op("min_of", op("max_of", "h", 0), 1), rows(lambda x: min(max(x, 0.0), 1.0), "h")),
    ("timestamp[us]", op("max_of", "t", "v"), rows(max, "t", "v")),
    ("bool", op("is_nan", op("sqrt", "q")), rows(lambda x: x < 0, "q")),
    ("bool", op("is_nan", "i"), rows(lambda x: False, "i")),
]
for name in ["sin", "cos", "tan", "atan", "sinh", "cosh", "tanh"]:
    CASES.append(("double", op(name, "q"), rows(safe(getattr(math, name)), "q")))
for name in ["asin", "acos"]:
    CASES.append(("double", op(name, "q"), rows(safe(getattr(math, name)), "q")))


def plain(value):
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if hasattr(value, "toordinal"):
        return value.toordinal() - 719163
    return value


def main():
    lines = ['R"json({"columns": {']
    lines += [",\n".join(f'  "{name}": {json.dumps({"type": kind, "values": values}, ensure_ascii=False)}'
                         for name, (kind, values) in COLUMNS.items())]
    lines += ['}, "cases": [)json"']
    for place, (kind, expression, values) in enumerate(CASES):
        case = {"expression": expression, "type": kind, "values": [plain(v) for v in values]}
        end = "," if place + 1 < len(CASES) else "]}"
        lines += [f'R"json({json.dumps(case, ensure_ascii=False)}{end})json"']
    Path(__file__).with_name("functions.inc").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
