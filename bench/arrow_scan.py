"""Measures a scan of the taxi data by Arrow alone, with the expressions of load_dataset in taxi_figures.cc pushed down:
what reading can cost at best. Nothing makes batches of 4,096 rows or tensors here.

    arrow_scan.py <file>   {"rows_per_s": ...}

Arrow uses as many threads as there are processors. Run it with the python that setup_ray.sh prints.
"""

import argparse
import json
import statistics
import sys
import time

import pyarrow.compute as pc
import pyarrow.dataset as ds

COLUMNS = [
    "tpep_pickup_datetime", "tpep_dropoff_datetime", "passenger_count", "trip_distance", "fare_amount", "tip_amount",
]  # fmt: skip
PASSES = 4  # The first warms up.


def expressions():
    """What becomes of the rows, and which of them stay."""
    pickup, dropoff, passengers, distance, fare, tip = map(ds.field, COLUMNS)
    # Not without whole days, as Manta's and pandas': Arrow has no modulo, and without one it is faster. 0.1% of the
    # trips, those that end before they begin or last for days, are judged differently.
    duration = pc.seconds_between(pickup, dropoff)
    projection = {
        "passenger_count": passengers,
        "trip_distance": distance,
        "fare_amount": fare,
        "trip_duration": duration,
        "hour": pc.hour(pickup),
        "day_of_week": pc.day_of_week(pickup),
        "is_big_tip": tip > pc.scalar(0.2) * fare,
    }
    wanted = (passengers <= 4) & (distance < 100) & (fare < 1000) & (duration < 4 * 60 * 60)
    for name in COLUMNS:
        wanted = wanted & ds.field(name).is_valid()
    return projection, wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--start-ns", type=int, help="not needed here")
    args = parser.parse_args()
    columns, wanted = expressions()
    rates = []
    for _ in range(PASSES):
        start = time.monotonic()
        batches = ds.dataset(args.file).scanner(columns=columns, filter=wanted).to_batches()
        rows = sum(batch.num_rows for batch in batches)
        rates.append(rows / (time.monotonic() - start))
    print(f"arrow_scan: {rows} rows", file=sys.stderr)
    print(json.dumps({"rows_per_s": statistics.median(rates[1:])}))


if __name__ == "__main__":
    main()
