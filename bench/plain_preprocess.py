"""Measures what pyarrow and scikit-learn take for what `preprocess_bench` does: the same figures, from the files to what
was learned, or to all rows in memory; each run after a first one.

    plain_preprocess.py pyarrow <path>    what its compute functions can do: means, deviations and distinct values
    plain_preprocess.py sklearn <path>    scikit-learn's classes on what pyarrow has read

Run it with the python that setup_ray.sh prints.
"""

import argparse
import json
import sys
import time

import pyarrow.compute as pc
import pyarrow.parquet as pq

RUNS = 3  # The first warms up.
SERVED = 500  # Rows, one by one.
NUMBERS = ["trip_distance", "fare_amount", "tip_amount"]
CATEGORIES = ["payment_type", "PULocationID"]


def seconds_of(name, run):
    seconds = []
    for _ in range(RUNS):
        start = time.monotonic()
        result = run()
        seconds.append(time.monotonic() - start)
        del result
        print(f"{name}: {seconds[-1]:.2f} s", file=sys.stderr)
    return seconds[1:]


def of_pyarrow(path):
    def distinct():
        table = pq.read_table(path, columns=CATEGORIES)
        return [pc.unique(table[name]).sort() for name in CATEGORIES]

    def moments():
        table = pq.read_table(path, columns=NUMBERS)
        return [(pc.mean(table[name]), pc.stddev(table[name])) for name in NUMBERS]

    def scaled():
        table = pq.read_table(path, columns=NUMBERS)
        return [pc.divide(pc.subtract(table[name], pc.mean(table[name])), pc.stddev(table[name])) for name in NUMBERS]

    return {
        "standard_fit_s": seconds_of("standard_fit_s", moments),
        "ordinal_fit_s": seconds_of("ordinal_fit_s", distinct),
        "one_hot_fit_s": seconds_of("one_hot_fit_s", distinct),
        "standard_fit_transform_s": seconds_of("standard_fit_transform_s", scaled),
    }


def of_sklearn(path):
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    def data(columns):
        return pq.read_table(path, columns=columns).to_pandas()

    one_hot = OneHotEncoder(sparse_output=False, dtype="uint8").fit(data(CATEGORIES))
    figures = {
        "standard_fit_s": seconds_of("standard_fit_s", lambda: StandardScaler().fit(data(NUMBERS))),
        "ordinal_fit_s": seconds_of("ordinal_fit_s", lambda: OrdinalEncoder().fit(data(CATEGORIES))),
        "one_hot_fit_s": seconds_of("one_hot_fit_s", lambda: OneHotEncoder().fit(data(CATEGORIES))),
        "one_hot_transform_s": seconds_of("one_hot_transform_s", lambda: one_hot.transform(data(CATEGORIES))),
        "standard_fit_transform_s": seconds_of("standard_fit_transform_s",
                                               lambda: StandardScaler().fit_transform(data(NUMBERS))),
    }  # fmt: skip
    chain = make_column_transformer((OneHotEncoder(sparse_output=False), ["payment_type"]),
                                    (StandardScaler(), ["trip_distance", "fare_amount"]))  # fmt: skip
    rows = data(["payment_type", "trip_distance", "fare_amount"])
    chain.fit(rows)
    start = time.monotonic()
    for i in range(SERVED):
        chain.transform(rows.iloc[i : i + 1])
    figures["row_us"] = [(time.monotonic() - start) * 1e6 / SERVED]
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=["pyarrow", "sklearn"])
    parser.add_argument("path")
    parser.add_argument("--start-ns", type=int, help="not needed here")
    args = parser.parse_args()
    print(json.dumps(of_pyarrow(args.path) if args.library == "pyarrow" else of_sklearn(args.path)))


if __name__ == "__main__":
    main()
