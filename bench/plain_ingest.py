"""Measures reading the taxi data without any framework, in one process: {"rows_per_s": [...]}, a rate for each pass.

    plain_ingest.py scan <path>      pyarrow's scanner with the expressions pushed down: what reading can cost at best;
                                     neither cut into batches nor made tensors
    plain_ingest.py tensors <path>   the same scanner, and float tensors in batches of 4,096 rows
    plain_ingest.py pandas <path>    pandas, a row group at a time, and float tensors in batches of 4,096 rows

Run it with the python that setup_ray.sh prints.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from taxi_features import COLUMNS, FEATURES, LABEL, scanner

PASSES = 4  # The first warms up.
BATCH = 4096


def scan(path):
    return sum(batch.num_rows for batch in scanner(path).to_batches())


def tensors(path):
    import numpy
    import torch

    rows, names = 0, [*FEATURES, LABEL]
    for batch in scanner(path).to_batches():
        both = numpy.empty((batch.num_rows, len(names)), numpy.float32)
        for i, name in enumerate(names):
            both[:, i] = batch[name].to_numpy(zero_copy_only=False)
        both = torch.from_numpy(both)
        for begin in range(0, len(both), BATCH):
            features, label = both[begin : begin + BATCH, :-1], both[begin : begin + BATCH, -1:]
            rows += len(features)
    return rows


def pandas(path):
    import pyarrow.parquet as pq
    import torch

    rows = 0
    for file in sorted(Path(path).glob("*.parquet")) if Path(path).is_dir() else [path]:
        parquet = pq.ParquetFile(file)
        for group in range(parquet.num_row_groups):
            both = torch.from_numpy(of_pandas(parquet.read_row_group(group, columns=COLUMNS).to_pandas()).to_numpy())
            for begin in range(0, len(both), BATCH):
                features, label = both[begin : begin + BATCH, :-1], both[begin : begin + BATCH, -1:]
                rows += len(features)
    return rows


def of_pandas(trips):
    trips = trips.dropna(subset=COLUMNS)
    trips = trips[(trips.passenger_count <= 4) & (trips.trip_distance < 100) & (trips.fare_amount < 1000)]
    duration = (trips.tpep_dropoff_datetime - trips.tpep_pickup_datetime).dt.seconds
    short = duration < 4 * 60 * 60
    trips, duration = trips[short], duration[short]
    result = trips[["passenger_count", "trip_distance", "fare_amount"]].astype("float32")
    result["trip_duration"] = duration.astype("float32")
    result["hour"] = trips.tpep_pickup_datetime.dt.hour.astype("float32")
    result["day_of_week"] = trips.tpep_pickup_datetime.dt.weekday.astype("float32")
    result[LABEL] = (trips.tip_amount > 0.2 * trips.fare_amount).astype("float32")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["scan", "tensors", "pandas"])
    parser.add_argument("path")
    parser.add_argument("--start-ns", type=int, help="not needed here")
    args = parser.parse_args()
    read = {"scan": scan, "tensors": tensors, "pandas": pandas}[args.what]
    rates = []
    for _ in range(PASSES):
        start = time.monotonic()
        rows = read(args.path)
        rates.append(rows / (time.monotonic() - start))
    print(f"plain_ingest: {rows} rows", file=sys.stderr)
    print(json.dumps({"rows_per_s": rates[1:]}))


if __name__ == "__main__":
    main()
