"""Measures Ray Data's preprocessors on the taxi trips: the peer of `preprocess_bench`. Prints seconds of each run after a
first one, from the files to what was learned, or to all rows in the object store.

    ray_preprocess.py <path>

Run it with the python that setup_ray.sh prints.
"""

import argparse
import json
import time

import pandas as pd
from ray_cluster import cluster, say

RUNS = 3  # The first warms up.
SERVED = 200  # Rows, one by one.
NUMBERS = ["trip_distance", "fare_amount", "tip_amount"]
CATEGORIES = ["payment_type", "PULocationID"]


def seconds_of(name, run):
    seconds = []
    for _ in range(RUNS):
        start = time.monotonic()
        result = run()
        seconds.append(time.monotonic() - start)
        del result
        say(f"{name}: {seconds[-1]:.2f} s")
    return seconds[1:]


def row_us(preprocessors, data):
    columns = ["payment_type", "trip_distance", "fare_amount"]
    chain = preprocessors.Chain(preprocessors.OneHotEncoder(["payment_type"]),
                                preprocessors.StandardScaler(["trip_distance", "fare_amount"]),
                                preprocessors.Concatenator(columns, dtype="float32", flatten=True))  # fmt: skip
    rows = data(columns)
    chain.fit(rows)
    first = pd.DataFrame(rows.take(SERVED))
    start = time.monotonic()
    for i in range(SERVED):
        chain.transform_batch(first.iloc[i : i + 1].reset_index(drop=True))
    return [(time.monotonic() - start) * 1e6 / SERVED]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--start-ns", type=int, help="not needed here")
    args = parser.parse_args()
    with cluster(2) as ray:
        from ray.data import preprocessors

        ray.data.DataContext.get_current().enable_progress_bars = False

        def data(columns):
            return ray.data.read_parquet(args.path, columns=columns)

        def standard():
            return preprocessors.StandardScaler(NUMBERS)

        one_hot = preprocessors.OneHotEncoder(CATEGORIES).fit(data(CATEGORIES))
        runs = {
            "standard_fit_s": lambda: standard().fit(data(NUMBERS)),
            "ordinal_fit_s": lambda: preprocessors.OrdinalEncoder(CATEGORIES).fit(data(CATEGORIES)),
            "one_hot_fit_s": lambda: preprocessors.OneHotEncoder(CATEGORIES).fit(data(CATEGORIES)),
            "one_hot_transform_s": lambda: one_hot.transform(data(CATEGORIES)).materialize(),
            "standard_fit_transform_s": lambda: standard().fit_transform(data(NUMBERS)).materialize(),
        }
        figures = {name: seconds_of(name, run) for name, run in runs.items()}
        figures["row_us"] = row_us(preprocessors, data)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
