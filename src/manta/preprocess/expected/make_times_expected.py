"""What Ray Data 2.59 makes of columns of dates, timestamps, times of day, durations, decimals and booleans as
categories: writes times.json beside this file, for times_expected_test.cc. Times are the integers that they are in
their unit, decimals texts.

Run it when a case is added, with a Python that has "ray[data]==2.59.*":  python make_times_expected.py

Where Ray fails, the expected values are those of pandas' own comparison, and the case says so ("instead").
"""

import datetime as dt
import decimal
import json
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import ray
from ray.data import preprocessors as rp

random.seed(12)
UTC = dt.timezone.utc
DAY = dt.timedelta(days=1)
BEGIN = dt.datetime(1969, 12, 31, 23, 59, 59, 999000)


def times(zone=None):
    return [(BEGIN + DAY * d).replace(tzinfo=zone) for d in (0, 0.5, 1, 20_000, -9000, 80_000)]


# The type, the values that it learns from, another type, and values to look up of that.
COLUMNS = {
    "date32": (pa.date32(), [BEGIN.date() + DAY * d for d in (0, 1, 20_000, -30_000)],
               pa.date64(), [BEGIN.date(), BEGIN.date() + 2 * DAY]),  # fmt: skip
    "date64": (pa.date64(), [BEGIN.date() + DAY * d for d in (0, 1, 20_000)],
               pa.date32(), [BEGIN.date() + DAY, BEGIN.date() + 2 * DAY]),  # fmt: skip
    "seconds": (pa.timestamp("s"), [t.replace(microsecond=0) for t in times()],
                pa.timestamp("ns"), [BEGIN, BEGIN.replace(microsecond=0)]),  # fmt: skip
    "milliseconds": (pa.timestamp("ms"), times(), pa.timestamp("us"), [BEGIN, BEGIN + DAY / 7]),
    "microseconds": (pa.timestamp("us"), times(), pa.timestamp("s"), [BEGIN.replace(microsecond=0)]),
    "nanoseconds": (pa.timestamp("ns"), times()[:4], pa.timestamp("us"), times()),
    "zone": (pa.timestamp("ms", tz="UTC"), times(UTC),
             pa.timestamp("us", tz="Europe/Berlin"), [BEGIN.replace(tzinfo=UTC), dt.datetime(2024, 5, 1, tzinfo=UTC)]),
    "time32": (pa.time32("s"), [dt.time(3), dt.time(0), dt.time(23, 59, 59)],
               pa.time64("us"), [dt.time(3), dt.time(3, 0, 0, 1)]),  # fmt: skip
    "time64": (pa.time64("us"), [dt.time(3), dt.time(0, 0, 1), dt.time(23, 59, 59, 999999)],
               pa.time32("ms"), [dt.time(3), dt.time(4)]),  # fmt: skip
    "duration": (pa.duration("s"), [dt.timedelta(seconds=s) for s in (5, -5, 0, 86400 * 400)],
                 pa.duration("ms"), [dt.timedelta(seconds=-5), dt.timedelta(seconds=5, milliseconds=1)]),  # fmt: skip
    "decimal": (pa.decimal128(10, 2), [decimal.Decimal(d) for d in ("10.00", "9.50", "-3.25", "0.00", "-0.01")],
                pa.decimal128(20, 5), [decimal.Decimal(d) for d in ("9.50000", "9.50001", "0.00000")]),  # fmt: skip
    "wide decimal": (pa.decimal256(50, 10), [decimal.Decimal(d) for d in ("1" * 30 + ".5", "-" + "2" * 35, "0.0000000001")],
                     pa.decimal128(12, 10), [decimal.Decimal("0.0000000001"), decimal.Decimal("0.0000000002")]),
    "boolean": (pa.bool_(), [True, False], pa.bool_(), [True, False]),
}


def plain(values, kind):
    """As they stand in JSON."""
    array = pa.array(values, type=kind)
    if pa.types.is_decimal(kind):
        return [None if v is None else format(v, "f") for v in array.to_pylist()]
    if pa.types.is_boolean(kind):
        return array.to_pylist()
    return array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()


def table(values, kind):
    rows = pa.table({"c": pa.array(values, type=kind)})
    half = len(rows) // 2
    return ray.data.from_arrow([rows.slice(0, half), rows.slice(half)])


def codes(value):
    if value is None or value != value:
        return None
    return [int(v) for v in value] if isinstance(value, (list, np.ndarray)) else int(value)


def looked_up(name, learned, values):
    """By pandas: the place of each value among those learned."""
    index = pd.Index(sorted(set(learned)), dtype=object)
    places = [None if p < 0 else int(p) for p in index.get_indexer(pd.Index(values, dtype=object))]
    if name in ("OrdinalEncoder", "LabelEncoder"):
        return places
    return [[int(place == i) for i in range(len(index))] for place in places]


ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
ray.data.DataContext.get_current().enable_progress_bars = False
cases = []
for column, (kind, distinct, other, others) in COLUMNS.items():
    learned = distinct + random.choices(distinct, k=9)
    for given, of in ((learned, kind), (others, other)):
        for name in ("OrdinalEncoder", "OneHotEncoder", "MultiHotEncoder", "LabelEncoder", "Categorizer"):
            entry = {"name": name, "column": column, "type": str(kind), "fit": plain(learned, kind),
                     "transform_type": str(of), "transform": plain(given, of)}  # fmt: skip
            encoder = getattr(rp, name)("c" if name == "LabelEncoder" else ["c"])
            try:
                encoder.fit(table(learned, kind))
                result = [row["c"] for row in encoder.transform(table(given, of)).take_all()]
                if name == "Categorizer":
                    entry["expected"] = plain([v if v == v else None for v in result], of)
                else:
                    entry["expected"] = [codes(v) for v in result]
            except Exception as error:  # noqa: BLE001
                entry["expected"] = None
                entry["instead"] = "Ray fails: " + str(error).strip().splitlines()[-1][:100]
            if name == "Categorizer":
                found = plain([v if v in learned else None for v in given], of)
            else:
                found = looked_up(name, learned, given)
            if entry["expected"] != found:
                entry.setdefault("instead", "Ray does not find equal values of another type")
                entry["expected"] = found
            cases.append(entry)
            print(name, column, entry.get("instead", ""), flush=True)
    holes = [*learned, None, *[distinct[0]] * len(learned), None]  # no tie decides
    imputer = rp.SimpleImputer(["c"], strategy="most_frequent")
    entry = {"name": "SimpleImputer", "column": column, "type": str(kind), "fit": plain(holes, kind),
             "transform_type": str(kind), "transform": plain(holes, kind)}  # fmt: skip
    imputer.fit(table(holes, kind))
    entry["expected"] = plain([row["c"] for row in imputer.transform(table(holes, kind)).take_all()], kind)
    cases.append(entry)

lines = ",\n".join(json.dumps(entry) for entry in cases)
Path(__file__).with_name("times.json").write_text("[\n" + lines + "\n]\n")
