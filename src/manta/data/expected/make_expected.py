"""What pandas computes for the expressions of expression_test.cc: writes expressions.inc beside this file.

Run it with a Python that has pandas (nullable types), when a case is added:  python make_expected.py
"""

import json
import math
from pathlib import Path

import pandas as pd

DAY = 86400 * 10**6
START = 1577836800 * 10**6  # 2020-01-01, a Wednesday, in microseconds

COLUMNS = {
    "i32": ("int32", [1, -7, None, 2147483647, 0, 4]),
    "i64": ("int64", [10, 3, 5, None, 0, -4]),
    "f32": ("float32", [0.5, -1.25, 3.0, 100.0, None, 4.0]),
    "f64": ("float64", [0.1, 2.5, None, -3.0, 0.0, 4.0]),
    "b": ("bool", [True, False, None, True, False, None]),
    "c": ("bool", [True, True, True, None, None, None]),
    "s": ("string", ["a", "b", None, "", "N", "zz"]),
    "begin": ("timestamp[us]", [START, START + 5 * 3600 * 10**6 + 1, None, -1, START + DAY - 1, -400 * DAY]),
    "end": ("timestamp[us]", [START + 90 * 10**6, START, START, 0, START + 3 * DAY + 7 * 10**6 - 1, -400 * DAY - 1]),
    "begin_ns": ("timestamp[ns]", [1, 10**18, -1, None, 86399 * 10**9, -86400 * 10**9]),
    "end_s": ("timestamp[s]", [0, 10**9 + 5, 3600, 7, None, -1]),
}
DTYPES = {"int32": "Int32", "int64": "Int64", "float32": "Float32", "float64": "Float64", "bool": "boolean",
          "string": "string"}


def series(kind, values):
    if kind.startswith("timestamp"):
        unit = kind[10:-1]
        return pd.Series(pd.array([pd.NaT if v is None else pd.Timestamp(v, unit=unit) for v in values],
                                  dtype=f"datetime64[{unit}]"))
    return pd.Series(values, dtype=DTYPES[kind])


FRAME = {name: series(*column) for name, column in COLUMNS.items()}


class E:
    """An expression: its JSON, and what pandas makes of it."""

    def __init__(self, json, value):
        self.json, self.value = json, value


def col(name):
    return E({"col": name}, FRAME[name])


def lit(value):
    return E({"lit": value}, value)


def op(name, function, *arguments, **more):
    return E({"op": name, "args": [a.json for a in arguments], **more}, function(*[a.value for a in arguments]))


def wide(value):
    """Integers as int64, other numbers as float64: how expressions combine them."""
    if not isinstance(value, pd.Series):
        return value
    return value.astype("Int64" if value.dtype.kind in "iu" else "Float64")


def arithmetic(name, function):
    return lambda a, b: op(name, lambda x, y: function(wide(x), wide(y)), a, b)


def compare(name, function):
    def run(x, y):
        if isinstance(x, pd.Series) and x.dtype.kind in "iuf":
            x = wide(x)
        if isinstance(y, pd.Series) and y.dtype.kind in "iuf":
            y = wide(y)
        return function(x, y)

    return lambda a, b: op(name, run, a, b)


add = arithmetic("add", lambda x, y: x + y)
subtract = arithmetic("subtract", lambda x, y: x - y)
multiply = arithmetic("multiply", lambda x, y: x * y)
divide = arithmetic("divide", lambda x, y: x.astype("Float64") / y)
negate = lambda a: op("negate", lambda x: -wide(x), a)
less = compare("less", lambda x, y: x < y)
less_equal = compare("less_equal", lambda x, y: x <= y)
greater = compare("greater", lambda x, y: x > y)
greater_equal = compare("greater_equal", lambda x, y: x >= y)
equal = compare("equal", lambda x, y: x == y)
not_equal = compare("not_equal", lambda x, y: x != y)
both = lambda a, b: op("and", lambda x, y: x & y, a, b)
either = lambda a, b: op("or", lambda x, y: x | y, a, b)
invert = lambda a: op("not", lambda x: ~x, a)
is_null = lambda a: op("is_null", lambda x: x.isna().astype("boolean"), a)
is_valid = lambda a: op("is_valid", lambda x: x.notna().astype("boolean"), a)
cast = lambda a, kind: op("cast", lambda x: x.astype(DTYPES[kind]), a, type=kind)
hour = lambda a: op("hour", lambda x: x.dt.hour.astype("Int32"), a)
day_of_week = lambda a: op("day_of_week", lambda x: x.dt.day_of_week.astype("Int32"), a)
seconds_between = lambda a, b: op("seconds_between", lambda x, y: (y - x).dt.seconds.astype("Int32"), a, b)


def comparable_times(name, function):
    """pandas gives False, not NA, for missing times: ours are null as everywhere else."""
    def run(x, y):
        result = function(x, pd.Timestamp(y) if isinstance(y, str) else y).astype("boolean")
        missing = x.isna() | (y.isna() if isinstance(y, pd.Series) else False)
        return result.mask(missing)

    return lambda a, b: op(name, run, a, b)


CASES = [
    ("int64", add(col("i32"), col("i64"))),
    ("int64", add(col("i32"), lit(1))),
    ("int64", subtract(col("i64"), col("i32"))),
    ("int64", multiply(col("i64"), lit(-3))),
    ("float64", multiply(lit(0.2), col("f64"))),
    ("float64", multiply(col("i64"), lit(0.5))),
    ("float64", add(col("f32"), col("f64"))),
    ("float64", subtract(col("i32"), col("f32"))),
    ("float64", divide(col("i32"), lit(2))),
    ("float64", divide(col("f64"), col("f32"))),
    ("int64", negate(col("i32"))),
    ("float64", negate(col("f32"))),
    ("bool", less(col("i32"), lit(4))),
    ("bool", less_equal(col("i32"), lit(4))),
    ("bool", greater(col("i64"), lit(3000000000))),
    ("bool", less(col("i32"), lit(3000000000))),
    ("bool", greater_equal(col("i32"), lit(0.5))),
    ("bool", equal(col("i64"), col("f64"))),
    ("bool", not_equal(col("i32"), col("i64"))),
    ("bool", less(col("f32"), col("f64"))),
    ("bool", greater(col("f64"), multiply(lit(0.2), col("f32")))),
    ("bool", equal(col("s"), lit("N"))),
    ("bool", less(col("s"), lit("b"))),
    ("bool", equal(col("b"), col("c"))),
    ("bool", both(col("b"), col("c"))),
    ("bool", either(col("b"), col("c"))),
    ("bool", invert(col("b"))),
    ("bool", both(less(col("i32"), lit(4)), invert(greater(col("f64"), lit(1))))),
    ("bool", is_null(col("f64"))),
    ("bool", is_valid(col("s"))),
    ("bool", is_null(add(col("i32"), col("i64")))),
    ("float32", cast(col("i64"), "float32")),
    ("int64", cast(col("i32"), "int64")),
    ("int32", hour(col("begin"))),
    ("int32", hour(col("end"))),
    ("int32", hour(col("begin_ns"))),
    ("int32", hour(col("end_s"))),
    ("int32", day_of_week(col("begin"))),
    ("int32", day_of_week(col("end"))),
    ("int32", day_of_week(col("begin_ns"))),
    ("int32", day_of_week(col("end_s"))),
    ("int32", seconds_between(col("begin"), col("end"))),
    ("int32", seconds_between(col("end"), col("begin"))),
    ("int32", seconds_between(col("begin_ns"), col("end_s"))),
    ("int32", seconds_between(col("begin_ns"), col("begin_ns"))),
    ("bool", comparable_times("less", lambda x, y: x < y)(col("begin"), col("end"))),
    ("bool", comparable_times("greater_equal", lambda x, y: x >= y)(col("begin"), lit("2020-01-01 05:00:00"))),
    ("bool", comparable_times("less", lambda x, y: x < y)(col("begin_ns"), lit("1970-01-02"))),
]


def plain(value):
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def main():
    document = {
        "columns": {name: {"type": kind, "values": values} for name, (kind, values) in COLUMNS.items()},
        "cases": [{"expression": e.json, "type": kind, "values": [plain(v) for v in e.value]} for kind, e in CASES],
    }
    lines = ['R"json({"columns": {']
    lines += [",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in document["columns"].items())]
    lines += ['}, "cases": [']
    lines += [",\n".join("  " + json.dumps(case) for case in document["cases"])]
    lines += [']})json"', ""]
    Path(__file__).with_name("expressions.inc").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
