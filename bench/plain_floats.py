"""Measures float tensors from a pyarrow table in memory, in batches of 4,096 rows, as `data_bench floats` does:
{"rows_per_s": [...]}, a rate for each pass.

    plain_floats.py <path>

Run it with the python that setup_ray.sh prints.
"""

import argparse
import json
import sys
import time

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import torch

PASSES = 4  # The first warms up.
BATCH = 4096
COLUMNS = ["trip_distance", "fare_amount", "tip_amount", "passenger_count", "payment_type", "PULocationID"]


def one_pass(table):
    rows = 0
    for batch in table.to_batches(max_chunksize=BATCH):
        both = numpy.empty((batch.num_rows, len(COLUMNS)), numpy.float32)
        for i, name in enumerate(COLUMNS):
            both[:, i] = batch[name].to_numpy(zero_copy_only=False)
        rows += len(torch.from_numpy(both))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--start-ns", type=int, help="not needed here")
    args = parser.parse_args()
    table = pq.read_table(args.path, columns=COLUMNS).drop_null()
    table = table.cast(pa.schema([(name, pa.float32()) for name in COLUMNS]), safe=False)
    rates = []
    for _ in range(PASSES):
        start = time.monotonic()
        rows = one_pass(table)
        rates.append(rows / (time.monotonic() - start))
        print(f"{rows} rows, {rates[-1]:.0f} rows/s", file=sys.stderr)
    print(json.dumps({"rows_per_s": rates[1:]}))


if __name__ == "__main__":
    main()
