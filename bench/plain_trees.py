"""Measures XGBoost on taxi trips without any framework, in one process with two threads.

    plain_trees.py train <path> --matrix DMatrix|QuantileDMatrix   {"boosting_s": ..., "end_to_end_s": ...}
    plain_trees.py predict <path> --model <file>                   {"rows_per_s": [...]}, file to predictions

Run it with the python that setup_ray.sh prints.
"""

import argparse
import json
import sys
import time

from taxi_boosting import boost, booster_of
from taxi_features import FEATURES, LABEL, scanner

PASSES = 3  # The first warms up.


def train(args):
    import xgboost  # noqa: F401  # Loading libraries is not part of the figures.

    start = time.monotonic()
    trips = scanner(args.path).to_table()
    read = time.monotonic()
    booster, building, boosting = boost(trips.select(FEATURES), trips[LABEL].cast("float32"), 2, args.matrix)
    booster.save_raw()
    end = time.monotonic()
    print(f"plain_trees: {trips.num_rows} rows: reading {read - start:.2f} s, matrix {building:.2f} s, boosting "
          f"{boosting:.2f} s", file=sys.stderr)  # fmt: skip
    return {"boosting_s": boosting, "end_to_end_s": end - start}


def predict(args):
    import numpy

    booster = booster_of(args.model, nthread=2)
    rates = []
    for _ in range(PASSES):
        start, rows, total = time.monotonic(), 0, 0.0
        for batch in scanner(args.path).to_batches():
            features = numpy.empty((batch.num_rows, len(FEATURES)), numpy.float32)
            for i, name in enumerate(FEATURES):
                features[:, i] = batch[name].to_numpy(zero_copy_only=False)
            probabilities = booster.inplace_predict(features, validate_features=False)
            rows += len(probabilities)
            total += float(probabilities.sum())
        rates.append(rows / (time.monotonic() - start))
    print(f"plain_trees: {rows} rows, mean {total / rows:.5f}", file=sys.stderr)
    return {"rows_per_s": rates[1:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "predict"])
    parser.add_argument("path")
    parser.add_argument("--matrix", choices=["DMatrix", "QuantileDMatrix"], default="QuantileDMatrix")
    parser.add_argument("--model")
    parser.add_argument("--start-ns", type=int, help="not needed here")
    args = parser.parse_args()
    print(json.dumps({"train": train, "predict": predict}[args.what](args)))


if __name__ == "__main__":
    main()
