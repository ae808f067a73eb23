"""What scikit-learn makes of columns of numbers: writes scalers.inc beside this file, for scalers_test.cc.

Run it with a Python that has scikit-learn and pandas, when a case is added:  python make_scalers_expected.py
"""

import json
import math
import random
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.preprocessing import MinMaxScaler, StandardScaler

random.seed(7)
ROWS = 211


def some_null(values, every):
    return [None if i % every == 3 else value for i, value in enumerate(values)]


COLUMNS = {
    "i8": ("int8", [random.randrange(-128, 128) for _ in range(ROWS)]),
    "u16": ("uint16", some_null([random.randrange(0, 65536) for _ in range(ROWS)], 10)),
    "i32": ("int32", some_null([random.randrange(-1000, 3000) for _ in range(ROWS)], 7)),
    "i64": ("int64", [random.randrange(-(2**60), 2**60) for _ in range(ROWS)]),
    "f32": ("float32", [float(np.float32(random.gauss(5, 2))) for _ in range(ROWS)]),
    "f64": ("float64", some_null([random.gauss(-3, 0.01) for _ in range(ROWS)], 5)),
    # Far from 0 and close together: the textbook formula for the variance gives nonsense.
    "far": ("float64", [1e9 + random.random() for _ in range(ROWS)]),
    "skewed": ("float64", [math.exp(random.gauss(0, 4)) for _ in range(ROWS)]),
    "b": ("bool", some_null([random.random() < 0.3 for _ in range(ROWS)], 9)),
    "zeros": ("float64", [0.0] * ROWS),
    # Sums of it are rounded, so that the differences to the mean are not quite 0.
    "constant": ("float64", some_null([0.1] * ROWS, 4)),
    "one": ("float64", [None] * (ROWS - 1) + [42.5]),
}


def numbers(values):
    """As a column of float64, in which sklearn sees NaN as missing."""
    return pd.Series([math.nan if v is None else float(v) for v in values]).to_numpy().reshape(-1, 1)


def result(values):
    return [None if math.isnan(v) else v for v in values.ravel().tolist()]


lines = []
for name, (kind, values) in COLUMNS.items():
    column = numbers(values)
    standard, minmax = StandardScaler().fit(column), MinMaxScaler().fit(column)
    lines.append(json.dumps({
        "name": name, "type": kind, "values": values,
        "mean": standard.mean_[0], "std": math.sqrt(standard.var_[0]), "standard": result(standard.transform(column)),
        "min": minmax.data_min_[0], "max": minmax.data_max_[0], "minmax": result(minmax.transform(column))}))
text = 'R"json([\n' + ",\n".join(lines) + '\n])json"\n'
# A string literal has a longest length; pieces of one are joined by the compiler.
text = ')json"\nR"json('.join(text[i:i + 12000] for i in range(0, len(text), 12000))
Path(__file__).with_name("scalers.inc").write_text(text)
