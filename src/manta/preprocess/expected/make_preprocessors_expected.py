"""What Ray Data 2.59 makes of random columns: writes preprocessors.json beside this file, for expected_test.cc.

Run it when a case is added, with a Python that has "ray[data]==2.59.*", "pandas<3" (CountVectorizer of Ray 2.59 fails
with pandas 3) and scikit-learn:
    python make_preprocessors_expected.py

A case is a preprocessor as our JSON has it, rows to learn from, rows to transform, and what comes out. Where we differ
from Ray on purpose, the expected values are those of scikit-learn or pandas, and the case says why ("instead").
"""

import json
import math
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import ray
import sklearn.preprocessing as sk
from ray.data import preprocessors as rp

random.seed(59)
CASES = []
TABLES = []
ROWS = 40


def plain(value):
    """As JSON: NaN and None are null."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    return value


def dataset(columns):
    # Two blocks, so that Ray merges what it learns.
    table = pa.table({name: pa.array(values, type=kind) for name, (kind, values) in columns.items()})
    half = len(table) // 2
    blocks = [table.slice(0, half), table.slice(half)]
    if any(pa.types.is_list(kind) or (pa.types.is_string(kind) and None in values) for kind, values in columns.values()):
        # Ray's encoders fail on Arrow's lists, and on nulls among Arrow's strings: they want Python's objects.
        return ray.data.from_pandas([
            pd.DataFrame({name: pd.Series(block[name].to_pylist(), dtype=object if not pa.types.is_primitive(kind) else None)
                          for name, (kind, _) in columns.items()}) for block in blocks])
    return ray.data.from_arrow(blocks)


def typed(columns):
    """The place of these columns among the tables."""
    table = {name: {"type": str(kind), "values": ["NaN" if v != v else v for v in values]}
             for name, (kind, values) in columns.items()}  # fmt: skip
    if table not in TABLES:
        TABLES.append(table)
    return TABLES.index(table)


def columns_of(ds):
    rows = ds.take_all()
    return {name: [plain(row.get(name)) for row in rows] for name in ds.columns()}


def case(name, state, preprocessor, fit, transform=None, *, expected=None, instead="", inverse=False):
    """`expected`: instead of what Ray gives."""
    transform = transform or fit
    entry = {"name": name, "state": state, "fit": typed(fit), "transform": typed(transform), "instead": instead}
    if expected is None:
        try:
            if preprocessor.fit_status() != preprocessor.FitStatus.NOT_FITTABLE:
                preprocessor.fit(dataset(fit))
            result = preprocessor.transform(dataset(transform))
            expected = columns_of(result)
            if inverse:
                entry["inverse"] = columns_of(preprocessor.inverse_transform(result))
        except Exception as error:  # noqa: BLE001
            entry["error"] = str(error).strip().splitlines()[-1][:200]
    if expected is not None:
        entry["columns"] = list(expected)
        passed = {column: values for column, (_, values) in transform.items()}
        entry["expected"] = {column: plain(values) for column, values in expected.items()
                             if plain(values) != plain(passed.get(column))}  # fmt: skip
    CASES.append(entry)
    print(name, state, entry.get("error", ""), flush=True)


def some_null(values, every):
    return [None if i % every == 3 else value for i, value in enumerate(values)]


f64, f32, i64, i32, u8, text, boolean = (pa.float64(), pa.float32(), pa.int64(), pa.int32(), pa.uint8(), pa.string(),
                                         pa.bool_())  # fmt: skip
numbers = {
    "x": (f64, some_null([random.gauss(3, 2) for _ in range(ROWS)], 7)),
    "i": (i64, [random.randrange(-50, 400) for _ in range(ROWS)]),
    "f": (f32, [float(np.float32(random.expovariate(0.1))) for _ in range(ROWS)]),
    "same": (f64, [0.1] * ROWS),
    "zero": (i32, [0] * ROWS),
}
beyond = {
    "x": (f64, [None, -1000.0, 1e6, 0.0, 3.25]),
    "i": (i64, [0, -1, 10**6, 7, 7]),
    "f": (f32, [0.0, -2.5, 64.0, 1.0, 3.0]),
    "same": (f64, [0.1, 0.2, 0.1, -5.0, 0.1]),
    "zero": (i32, [0, 1, 2, 0, -3]),
}
names = list(numbers)

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
ray.data.DataContext.get_current().enable_progress_bars = False

for scaler in ("StandardScaler", "MinMaxScaler", "MaxAbsScaler"):
    make = getattr(rp, scaler)
    # Ray treats a standard deviation or range below 1e-8 as 1: so do we, exactly at 0, which is what "same" has.
    case(scaler, {"columns": names}, make(columns=names), numbers)
    case(scaler, {"columns": names}, make(columns=names), numbers, beyond)
    case(scaler, {"columns": ["x", "i"], "output_columns": ["x2", "i"]},
         make(columns=["x", "i"], output_columns=["x2", "i"]), numbers, beyond)  # fmt: skip

for low, high in ((0.25, 0.75), (0.1, 0.95)):
    def robust(fit, transform):
        result = {name: values for name, (_, values) in transform.items()}
        for name in names:
            scaler = sk.RobustScaler(quantile_range=(low * 100, high * 100))
            scaler.fit(np.array(fit[name][1], dtype=float).reshape(-1, 1))
            result[name] = scaler.transform(np.array(transform[name][1], dtype=float).reshape(-1, 1)).ravel().tolist()
        return result
    for rows in (numbers, beyond):
        case("RobustScaler", {"columns": names, "quantile_range": [low, high]}, None, numbers, rows,
             expected=robust(numbers, rows), instead="Ray estimates quantiles; these are scikit-learn's")  # fmt: skip

no_nulls = {name: values for name, values in numbers.items() if name != "x"}
for norm in ("l1", "l2", "max"):
    case("Normalizer", {"columns": ["x", "i", "f"], "norm": norm}, rp.Normalizer(columns=["x", "i", "f"], norm=norm),
         numbers)  # fmt: skip
    rows = {"a": (f64, [0.0, 3.0, -1e-3]), "b": (i64, [0, -4, 2])}
    matrix = np.array([rows["a"][1], rows["b"][1]], dtype=float).T
    both = sk.Normalizer(norm=norm).transform(matrix).T.tolist()
    case("Normalizer", {"columns": ["a", "b"], "norm": norm}, None, rows, expected={"a": both[0], "b": both[1]},
         instead="Ray makes a row of zeros NaN; this is scikit-learn's")  # fmt: skip

for power in (0, 0.5, 1, 2, -1.5, 3.25):
    case("PowerTransformer", {"columns": ["i", "f"], "power": power, "method": "yeo-johnson"},
         rp.PowerTransformer(columns=["i", "f"], power=power), numbers)  # fmt: skip
    case("PowerTransformer", {"columns": ["f"], "power": power, "method": "box-cox", "output_columns": ["g"]},
         rp.PowerTransformer(columns=["f"], power=power, method="box-cox", output_columns=["g"]), numbers)  # fmt: skip

holes = {
    "x": numbers["x"],
    "n": (i64, some_null([random.randrange(5) for _ in range(ROWS)], 5)),
    "t": (text, some_null([random.choice(["a", "bb", "bb", "c", ""]) for _ in range(ROWS)], 6)),
}
more_holes = {"x": (f64, [None, 1.5]), "n": (i64, [None, 9]), "t": (text, ["new", None])}
for rows in (holes, more_holes):
    case("SimpleImputer", {"columns": ["x", "n"], "strategy": "mean"}, rp.SimpleImputer(["x", "n"]), holes, rows)
    case("SimpleImputer", {"columns": ["n", "t"], "strategy": "most_frequent", "output_columns": ["n2", "t2"]},
         rp.SimpleImputer(["n", "t"], strategy="most_frequent", output_columns=["n2", "t2"]), holes, rows)  # fmt: skip
    case("SimpleImputer", {"columns": ["n"], "strategy": "constant", "fill_value": -7},
         rp.SimpleImputer(["n"], strategy="constant", fill_value=-7), holes, rows)  # fmt: skip
    case("SimpleImputer", {"columns": ["t"], "strategy": "constant", "fill_value": "?"},
         rp.SimpleImputer(["t"], strategy="constant", fill_value="?"), holes, rows)  # fmt: skip

WORDS = ["red", "green", "Blue", "", "größe", "日本", "z" * 40, "a b"]
kinds = {
    "t": (text, [random.choice(WORDS) for _ in range(ROWS)]),
    "n": (i64, [random.choice([5, -3, 0, 2**60, 10**9, 7]) for _ in range(ROWS)]),
    "s": (i32, [random.choice([1, 2, 3, 264]) for _ in range(ROWS)]),
    "d": (f64, [random.choice([0.5, -2.0, 1e300, 3.0]) for _ in range(ROWS)]),
    "b": (boolean, [random.random() < 0.5 for _ in range(ROWS)]),
}
unseen = {
    "t": (text, ["red", "mauve", "日本", ""]),
    "n": (i64, [2**60, 2**60 + 1, 7, 8]),
    "s": (i32, [264, 4, 1, 0]),
    "d": (f64, [3.0, 0.25, -2.0, 0.5]),
    "b": (boolean, [True, False, True, True]),
}
lists = {
    "l": (pa.list_(text), [[random.choice(WORDS[:4]) for _ in range(random.randrange(0, 4))] for _ in range(ROWS)]),
    "m": (pa.list_(i64), [[random.randrange(3) for _ in range(random.randrange(1, 3))] for _ in range(ROWS)]),
}
new_lists = {
    "l": (pa.list_(text), [["red", "mauve", "red"], [], ["green", "Blue"]]),
    "m": (pa.list_(i64), [[2, 2, 9], [0], [1, 0]]),
}
nulls = {"t": (text, ["a", None, "b"])}
nans = {"d": (f64, [1.0, math.nan, 2.0])}
all_kinds = list(kinds)
for rows in (kinds, unseen):
    case("OrdinalEncoder", {"columns": all_kinds, "encode_lists": True}, rp.OrdinalEncoder(all_kinds), kinds, rows)
    case("OneHotEncoder", {"columns": all_kinds}, rp.OneHotEncoder(all_kinds), kinds, rows)
    case("MultiHotEncoder", {"columns": ["t", "s"]}, rp.MultiHotEncoder(["t", "s"]), kinds, rows)
    for column in all_kinds:
        case("LabelEncoder", {"columns": [column], "output_columns": ["code"]},
             rp.LabelEncoder(column, output_column="code"), kinds, rows, inverse=True)  # fmt: skip
    case("Categorizer", {"columns": ["t", "n", "b"]}, rp.Categorizer(["t", "n", "b"]), kinds, rows)
    sizes = pd.CategoricalDtype(["red", "Blue"])
    case("Categorizer", {"columns": ["t"], "dtypes": {"t": ["red", "Blue"]}, "output_columns": ["c"]},
         rp.Categorizer(["t"], dtypes={"t": sizes}, output_columns=["c"]), kinds, rows,
         expected=dict({name: values for name, (_, values) in rows.items()},
                       c=[v if v in ("red", "Blue") else None for v in rows["t"][1]]),
         instead="Ray 2.59 fails on output_columns with dtypes")  # fmt: skip
# Counts that differ, so that no tie decides.
skewed = {"t": (text, ["a"] * 4 + ["b"] * 7 + ["c"] * 2 + ["d"] * 5)}
for encoder in ("OneHotEncoder", "MultiHotEncoder"):
    case(encoder, {"columns": ["t"], "max_categories": {"t": 2}},
         getattr(rp, encoder)(["t"], max_categories={"t": 2}), skewed)  # fmt: skip
for rows in (lists, new_lists):
    case("OrdinalEncoder", {"columns": ["l", "m"], "encode_lists": True}, rp.OrdinalEncoder(["l", "m"]), lists, rows)
    case("OrdinalEncoder", {"columns": ["l", "m"], "encode_lists": False},
         rp.OrdinalEncoder(["l", "m"], encode_lists=False), lists, rows)  # fmt: skip
    case("OneHotEncoder", {"columns": ["m"]}, rp.OneHotEncoder(["m"]), lists, rows)
    case("MultiHotEncoder", {"columns": ["l", "m"]}, rp.MultiHotEncoder(["l", "m"]), lists, rows)
for encoder, state in (("OrdinalEncoder", {"encode_lists": True}), ("OneHotEncoder", {}), ("MultiHotEncoder", {})):
    case(encoder, {"columns": ["t"], **state}, getattr(rp, encoder)(["t"]), nulls)
    case(encoder, {"columns": ["d"], **state}, getattr(rp, encoder)(["d"]), nans)
    case(encoder, {"columns": ["t"], **state}, getattr(rp, encoder)(["t"]), kinds, nulls)
case("LabelEncoder", {"columns": ["t"]}, rp.LabelEncoder("t"), nulls)
case("Categorizer", {"columns": ["t"]}, rp.Categorizer(["t"]), nulls)

OPTIONS = {"right": True, "include_lowest": False, "duplicates": "raise"}
for change in ({}, {"right": False}, {"include_lowest": True}, {"right": False, "include_lowest": True}):
    options = OPTIONS | change
    for rows in (numbers, beyond):
        case("UniformKBinsDiscretizer", {"columns": ["x", "i", "same"], "bins": {"x": 4, "i": 4, "same": 4}, **options},
             rp.UniformKBinsDiscretizer(["x", "i", "same"], bins=4, **change), numbers, rows)  # fmt: skip
        edges = [-50.0, 0.0, 0.1, 3.0, 7.0, 400.0]
        case("CustomKBinsDiscretizer", {"columns": ["x", "i", "same"], "edges": [edges] * 3, **options},
             rp.CustomKBinsDiscretizer(["x", "i", "same"], bins=edges, **change), numbers, rows)  # fmt: skip
named = pd.CategoricalDtype(["low", "high", "top"], ordered=True)
case("UniformKBinsDiscretizer",
     {"columns": ["i"], "bins": {"i": 3}, "dtypes": {"i": ["low", "high", "top"]}, "output_columns": ["j"], **OPTIONS},
     rp.UniformKBinsDiscretizer(["i"], bins={"i": 3}, dtypes={"i": named}, output_columns=["j"]), numbers)  # fmt: skip
case("CustomKBinsDiscretizer", {"columns": ["i"], "edges": [[-100, 0, 0, 500]], **(OPTIONS | {"duplicates": "drop"})},
     rp.CustomKBinsDiscretizer(["i"], bins=[-100, 0, 0, 500], duplicates="drop"), numbers)  # fmt: skip
case("CustomKBinsDiscretizer", {"columns": ["i"], "edges": [["-inf", 0, 100, "inf"]], **OPTIONS},
     rp.CustomKBinsDiscretizer(["i"], bins=[-math.inf, 0, 100, math.inf]), numbers)  # fmt: skip

corpus = {
    "t": (text, ["the cat and the dog", "a  cat", "", " the", "größe the the and cat", "dog the"]),
    "u": (text, ["x y", "y", "y x", "y z x", "y", "y x"]),
}
fresh = {"t": (text, ["the bird", "cat cat"]), "u": (text, ["", "x  x"])}
for rows in (corpus, fresh):
    case("Tokenizer", {"columns": ["t"], "tokenizer": "", "output_columns": ["tokens"]},
         rp.Tokenizer(["t"], output_columns=["tokens"]), corpus, rows)  # fmt: skip
    # "u" has no two tokens of the same count; in "t" one comes most often: no tie decides.
    case("CountVectorizer", {"columns": ["u"], "tokenizer": "", "max_features": 0}, rp.CountVectorizer(["u"]), corpus,
         rows)  # fmt: skip
    case("CountVectorizer", {"columns": ["u"], "tokenizer": "", "max_features": 2, "output_columns": ["v"]},
         rp.CountVectorizer(["u"], max_features=2, output_columns=["v"]), corpus, rows)  # fmt: skip
    case("CountVectorizer", {"columns": ["t", "u"], "tokenizer": "", "max_features": 1},
         rp.CountVectorizer(["t", "u"], max_features=1), corpus, rows)  # fmt: skip
    for features in (1, 8, 37):
        case("HashingVectorizer", {"columns": ["t"], "num_features": features, "tokenizer": ""},
             rp.HashingVectorizer(["t"], num_features=features), corpus, rows)  # fmt: skip
grid = {name: (i64, [random.randrange(9) for _ in range(6)]) for name in ("I", "like", "Python", "größe", "日本")}
for features in (1, 4, 13):
    case("FeatureHasher", {"columns": list(grid), "num_features": features, "output_column": "hashed"},
         rp.FeatureHasher(list(grid), num_features=features, output_column="hashed"), grid)  # fmt: skip

base = {"columns": ["i", "f"], "output_column_name": "concat_out", "dtype": "", "flatten": False}
case("Concatenator", base, rp.Concatenator(["i", "f"]), numbers)
case("Concatenator", base | {"columns": ["zero", "i"]}, rp.Concatenator(["zero", "i"]), numbers)
case("Concatenator", base | {"columns": ["x", "i", "f"], "dtype": "float32", "output_column_name": "v"},
     rp.Concatenator(["x", "i", "f"], dtype=np.float32, output_column_name="v"), numbers)  # fmt: skip
hot = {"v": (pa.list_(u8, 2), [[0, 1], [1, 0]]), "y": (f64, [0.5, 2.5]), "id": (i64, [1, 2])}
case("Concatenator", base | {"columns": ["v", "y"], "flatten": True, "dtype": "float32"},
     rp.Concatenator(["v", "y"], flatten=True, dtype=np.float32), hot)  # fmt: skip
case("Concatenator", base | {"columns": ["i", "nowhere"]}, rp.Concatenator(["i", "nowhere"]), numbers)


def part(name, state):
    return {"version": 1, "name": name, "state": state}


mixed = {"t": kinds["t"], "x": numbers["x"], "i": numbers["i"]}
case("Chain", {"parts": [part("SimpleImputer", {"columns": ["x"], "strategy": "mean"}),
                         part("OneHotEncoder", {"columns": ["t"]}),
                         part("StandardScaler", {"columns": ["x", "i"]}),
                         part("Concatenator", base | {"columns": ["t", "x", "i"], "flatten": True})]},
     rp.Chain(rp.SimpleImputer(["x"]), rp.OneHotEncoder(["t"]), rp.StandardScaler(["x", "i"]),
              rp.Concatenator(["t", "x", "i"], flatten=True)), mixed)  # fmt: skip

def lines(entries):
    return "[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]"


out = '{"tables": ' + lines(TABLES) + ',\n"cases": ' + lines(CASES) + "}\n"
Path(__file__).with_name("preprocessors.json").write_text(out)
