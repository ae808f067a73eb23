"""What XGBoost's Python package predicts: writes predictions.inc beside this file, for expected_test.cc.

Run it with a Python that has xgboost 3.2 and pandas, when a case is added:  python make_predictions.py
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost as xgb

HERE = Path(__file__).parent
TABLE = pd.read_csv(HERE.parents[3] / "examples/data/breast_cancer.csv")
TEST_ROWS = 114
ROUNDS = 15
ALL = {"nthread": 1, "seed_per_iteration": True, "max_depth": 4, "eta": 0.3}

# The label of the table, or one of three classes, or a number, made of other columns.
LABELS = {
    "target": TABLE["target"],
    "class": pd.cut(TABLE["mean texture"], [0, 17, 21, 100], labels=False),
    "number": TABLE["mean area"] / 100,
}

# Without the column that a label is made of. Some values are missing. `bins`: 1024, which is more than there are values,
# so that the bins are the values themselves, however many workers share the rows; or 256, the default, where they are
# quantiles.
CASES = {
    "logistic": ("target", {"objective": "binary:logistic", "max_bin": 1024}),
    "logistic_256_bins": ("target", {"objective": "binary:logistic", "max_bin": 256}),
    "approx": ("target", {"objective": "binary:logistic", "tree_method": "approx", "max_bin": 1024}),
    "softprob": ("class", {"objective": "multi:softprob", "num_class": 3, "max_bin": 1024}),
    "softmax": ("class", {"objective": "multi:softmax", "num_class": 3, "max_bin": 1024}),
    "squared": ("number", {"objective": "reg:squarederror", "max_bin": 1024}),
}


def features(label):
    table = TABLE.drop(columns=["target"] + {"class": ["mean texture"], "number": ["mean area"]}.get(label, []))
    # Every seventh row lacks this one.
    table.loc[table.index % 7 == 3, "worst radius"] = np.nan
    return table


def numbers(values):
    return ", ".join(f"{value!r}f" if "." in repr(value) or "e" in repr(value) else f"{value!r}.0f"
                     for value in np.asarray(values, dtype=np.float64).ravel().tolist())


lines = []
for name, (label, params) in CASES.items():
    table, labels = features(label), LABELS[label]
    train, test = table[:-TEST_ROWS], table[-TEST_ROWS:]
    if params.get("tree_method") == "approx":  # which needs the values
        matrix = xgb.DMatrix(train, labels[:-TEST_ROWS], nthread=1)
    else:
        matrix = xgb.QuantileDMatrix(train, labels[:-TEST_ROWS], max_bin=params["max_bin"], nthread=1)
    evals = {}
    booster = xgb.train({**ALL, **params}, matrix, ROUNDS, evals=[(matrix, "train")], evals_result=evals,
                        verbose_eval=False)
    predictions = booster.predict(xgb.DMatrix(test)).astype(np.float32)
    metric, values = next(iter(evals["train"].items()))
    text = json.dumps({**ALL, **params})
    lines.append(f'{{"{name}", "{label}", R"({text})", "train-{metric}", {values[-1]!r},\n'
                 f" {{{numbers(predictions)}}}}},\n")

(HERE / "predictions.inc").write_text("// Made by make_predictions.py.\n" + "".join(lines))
