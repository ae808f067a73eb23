"""Writes breast_cancer.csv beside this file: the table as scikit-learn has it, "target" last.

Run it with a Python that has scikit-learn:  python make_breast_cancer.py
"""

import csv
from pathlib import Path

from sklearn.datasets import load_breast_cancer

table = load_breast_cancer()
with open(Path(__file__).with_name("breast_cancer.csv"), "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*table.feature_names, "target"])
    for features, target in zip(table.data.tolist(), table.target.tolist()):
        writer.writerow([*features, target])
