"""What pandas, numpy, pyarrow and DuckDB make of sorts, groups and joins: writes wide.inc, for wide_test.cc and
group_by_test.cc, and aggregates.inc, for aggregate_table_test.cc, beside this file.

Run it with a Python that has pandas, pyarrow and duckdb, when a case is added:  python make_wide_expected.py
Rows are random, with nulls, NaN, equal keys and the ends of ranges. Where two of the three know an answer, they must
agree.
"""

import json
import math
import random
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

random.seed(11)
ROWS = 240


def some_null(values, part):
    return [None if random.random() < part else value for value in values]


COLUMNS = {
    "id": ("int64", list(range(ROWS))),
    "i": ("int32", some_null([random.randrange(-4, 5) for _ in range(ROWS)], 0.1)),
    "u": ("uint64", some_null([random.choice([0, 1, 2**63, 2**64 - 1]) for _ in range(ROWS)], 0.1)),
    "f": ("float64", some_null([random.choice([math.nan, -0.0, 0.0, -1.5, 2.25, math.inf, -math.inf])
                                for _ in range(ROWS)], 0.1)),
    "x": ("float64", some_null([random.gauss(100, 15) for _ in range(ROWS)], 0.15)),
    "n": ("int64", some_null([random.randrange(-(2**40), 2**40) for _ in range(ROWS)], 0.1)),
    "b": ("bool", some_null([random.random() < 0.5 for _ in range(ROWS)], 0.1)),
    "s": ("string", some_null([random.choice(["", "a", "B", "ab", "b", "ä", "z", "long enough for a pointer"])
                               for _ in range(ROWS)], 0.1)),
    "t": ("timestamp[us]", some_null([random.randrange(0, 10**9) for _ in range(ROWS)], 0.1)),
}  # fmt: skip
TABLE = pa.table({name: pa.array(values, pa.type_for_alias(kind)) for name, (kind, values) in COLUMNS.items()})

RIGHT_ROWS = 60
RIGHT = {
    "i": ("int32", some_null([random.randrange(-6, 7) for _ in range(RIGHT_ROWS)], 0.1)),
    "s": ("string", some_null([random.choice(["a", "B", "ab", "q"]) for _ in range(RIGHT_ROWS)], 0.1)),
    "y": ("int64", list(range(1000, 1000 + RIGHT_ROWS))),
}
RIGHT_TABLE = pa.table({name: pa.array(values, pa.type_for_alias(kind)) for name, (kind, values) in RIGHT.items()})


def plain(value):
    """As JSON: NaN and infinities as texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def plain_list(values):
    return [plain(value) for value in values]


def sorted_ids(keys, descending, nulls):
    """Each key by pyarrow alone, last key first, with a stable sort: NaN beside the nulls in both directions."""
    order = list(range(ROWS))
    for key, down in reversed(list(zip(keys, descending))):
        values = TABLE[key].to_pylist()

        def kind(row):
            value = values[row]
            if value is None:
                return 2
            return 1 if isinstance(value, float) and math.isnan(value) else 0

        numbers = [row for row in order if kind(row) == 0]
        as_bytes = (lambda v: v.encode()) if isinstance(next(v for v in values if v is not None), str) else (lambda v: v)
        numbers = sorted(numbers, key=lambda row: as_bytes(values[row]), reverse=False)
        if down:  # equal ones stay as they came
            groups = {}
            for row in numbers:
                groups.setdefault(as_bytes(values[row]), []).append(row)
            numbers = [row for value in reversed(list(groups)) for row in groups[value]]
        nans = [row for row in order if kind(row) == 1]
        none = [row for row in order if kind(row) == 2]
        order = none + nans + numbers if nulls == "first" else numbers + nans + none
    # pyarrow's own stable order agrees where its sort knows the same rules: one null placement for all keys.
    placement = "at_start" if nulls == "first" else "at_end"
    theirs = pc.sort_indices(TABLE, [(k, "descending" if d else "ascending") for k, d in zip(keys, descending)] +
                             [("id", "ascending")], null_placement=placement).to_pylist()
    assert order == theirs, (keys, descending, nulls)
    return order


SORTS = [
    (["i"], [False], "last"), (["i"], [True], "last"), (["i"], [True], "first"), (["u"], [False], "last"),
    (["u"], [True], "first"), (["f"], [False], "last"), (["f"], [True], "last"), (["f"], [False], "first"),
    (["f"], [True], "first"), (["s"], [False], "last"), (["s"], [True], "first"), (["b"], [True], "last"),
    (["t"], [False], "last"), (["s", "i"], [False, True], "last"), (["b", "f", "s"], [True, False, True], "first"),
]  # fmt: skip

FRAME = TABLE.to_pandas(types_mapper=pd.ArrowDtype)


def groups_of(keys):
    con = duckdb.connect()
    con.register("t", TABLE)
    names = ", ".join(keys)
    query = f"""select {names}, count(*) as rows, count(x) as values, sum(n)::varchar as total, min(s) as least,
                max(t)::varchar as latest, avg(x) as mean, stddev_samp(x) as std, quantile_cont(x, 0.3) as q3,
                sum(b::int)::varchar as trues from t group by {names}
                order by {", ".join(name + " nulls last" for name in keys)}"""
    rows = con.execute(query).fetchall()
    columns = [column[0] for column in con.description]
    by_key = {tuple(row[: len(keys)]): dict(zip(columns, row)) for row in rows}
    # pandas agrees.
    grouped = FRAME.groupby(keys, dropna=False, observed=True)
    for key, part in grouped:
        key = tuple(None if value is pd.NA else value for value in key)
        mine = by_key[key]
        assert mine["rows"] == len(part) and mine["values"] == part["x"].count()
        x = part["x"].dropna().to_numpy(dtype=float)
        if len(x):
            assert math.isclose(mine["mean"], x.mean(), rel_tol=1e-12)
            assert math.isclose(mine["q3"], np.quantile(x, 0.3), rel_tol=1e-12)
        if len(x) > 1:
            assert math.isclose(mine["std"], x.std(ddof=1), rel_tol=1e-10), (key, mine["std"], x.std(ddof=1))
        n = [value for value in part["n"].tolist() if value is not pd.NA and value is not None]
        assert mine["total"] == (str(sum(n)) if n else None)
    return [{**row, "key": [row[name] for name in keys]} for row in (by_key[key] for key in by_key)]


def clean(group):
    return {name: plain(value) for name, value in group.items() if name not in ("i", "s", "b", "u")}


def joined(kind, on):
    con = duckdb.connect()
    con.register("l", TABLE)
    con.register("r", RIGHT_TABLE)
    condition = " and ".join(f"l.{name} = r.{name}" for name in on)
    sql = {"inner": "join", "left": "left join", "right": "right join", "outer": "full join"}.get(kind)
    if sql:
        order = "r.y nulls last, l.id nulls last" if kind == "right" else "l.id nulls last, r.y nulls last"
        rows = con.execute(f"select l.id, r.y from l {sql} r on {condition} order by {order}").fetchall()
        if kind == "inner":  # pandas would match nulls with each other
            right = RIGHT_TABLE.to_pandas().dropna(subset=on)
            left = TABLE.to_pandas().dropna(subset=on)
            theirs = left.merge(right, on=on).sort_values(["id", "y"])
            assert [(a, b) for a, b in rows] == list(zip(theirs["id"], theirs["y"]))
        return [list(row) for row in rows]
    side, how = kind.split()
    first, second, column = ("l", "r", "id") if side == "left" else ("r", "l", "y")
    rows = con.execute(f"select {first}.{column} from {first} {how} join {second} on {condition} "
                       f"order by {first}.{column}").fetchall()
    return [row[0] for row in rows]


JOINS = [(kind, on) for kind in ("inner", "left", "right", "outer", "left semi", "left anti", "right semi", "right anti")
         for on in (["i"], ["i", "s"])]



def by_numpy(kind, parameter, values):
    """An aggregate of one group's values, None left out. The documented rules for NaN are spelled out."""
    if kind == "count":
        return len(values)
    if kind == "unique":
        numbers = sorted({value + 0.0 if isinstance(value, float) else value for value in values if value == value},
                         key=lambda value: value.encode() if isinstance(value, str) else value)  # fmt: skip
        return numbers + [math.nan] * any(value != value for value in values)
    if not values:
        return None
    if kind in ("min", "max"):
        numbers = [value for value in values if value == value]
        order = {"key": lambda value: value.encode()} if isinstance(values[0], str) else {}
        return (min if kind == "min" else max)(numbers, **order) if numbers else math.nan
    if kind == "sum" and not isinstance(values[0], float):
        return sum(map(int, values))
    floats = np.array(values, dtype=float)
    with np.errstate(invalid="ignore"):
        if kind == "sum":
            return float(floats.sum())
        if kind == "mean":
            return float(floats.mean())
        if kind == "std":
            if not np.isfinite(floats).all():
                return math.nan
            return float(floats.std(ddof=int(parameter))) if len(floats) > parameter else None
        if kind == "squares":  # the custom one of aggregate_table_test.cc
            return float((floats * floats).sum())
        return float(np.quantile(floats, parameter))


def table_of_aggregates():
    """Every aggregate of columns of every type, by groups of several sizes, among them of no values and of one."""
    cases = [(kind, 0, column) for kind in ("count", "min", "max", "unique") for column in ("i", "u", "f", "x", "b", "s")]
    cases += [("sum", 0, column) for column in ("i", "f", "x", "n", "b")]
    cases += [("mean", 0, column) for column in ("i", "f", "x", "n", "b")]
    cases += [("std", ddof, column) for ddof in (0, 1) for column in ("i", "f", "x")]
    cases += [("quantile", q, column) for q in (0, 0.1, 0.5, 0.75, 1) for column in ("i", "x")]
    cases += [("squares", 0, "x")]
    rare = {"i": 3, "s": "z"}  # whose values go, so that some groups have none
    by_pandas = {"sum": "sum", "mean": "mean", "min": "min", "max": "max", "count": "count"}
    table = []
    for keys in ([], ["i"], ["s", "b"]):
        groups = {}
        for row in TABLE.to_pylist():
            groups.setdefault(tuple(row[key] for key in keys), []).append(row)
        at = {key: list(groups[key]) for key in groups}
        order = sorted(at, key=lambda key: [(v is None, v.encode() if isinstance(v, str) else v or 0) for v in key])
        for kind, parameter, column in cases:
            given = []
            for key in order:
                gone = any(name in rare and value == rare[name] for name, value in zip(keys, key))
                values = [row[column] for row in at[key] if row[column] is not None and not gone]
                one = by_numpy(kind, parameter, values)
                if kind in by_pandas and column in ("i", "x") and values:  # a second opinion
                    theirs = getattr(pd.Series(values, dtype=float), by_pandas[kind])()
                    assert math.isclose(one, theirs, rel_tol=1e-12), (kind, column, key)
                given.append(plain_list(one) if isinstance(one, list) else plain(one))
            table.append({"keys": keys, "kind": kind, "parameter": parameter, "column": column, "values": given})
    return table


expected = {
    "columns": {name: {"type": kind, "values": plain_list(values)} for name, (kind, values) in COLUMNS.items()},
    "right": {name: {"type": kind, "values": plain_list(values)} for name, (kind, values) in RIGHT.items()},
    "sorts": [{"keys": keys, "descending": down, "nulls": nulls, "ids": sorted_ids(keys, down, nulls)}
              for keys, down, nulls in SORTS],
    "groups": [{"keys": keys, "rows": [clean(group) for group in groups_of(keys)]} for keys in (["i"], ["s"], ["b", "i"])],
    "joins": [{"type": kind, "on": on, "rows": joined(kind, on)} for kind, on in JOINS],
}  # fmt: skip


def write(file, name, content):
    text = json.dumps(content, ensure_ascii=True)
    with open(Path(__file__).parent / file, "w") as out:
        out.write("// Written by make_wide_expected.py.\n")
        out.write(f"constexpr const char* {name}[] = {{\n")
        for start in range(0, len(text), 90):
            out.write(f'    R"json({text[start:start + 90]})json",\n')
        out.write("};\n")


write("wide.inc", "kWideExpected", expected)
write("aggregates.inc", "kAggregatesExpected", table_of_aggregates())
