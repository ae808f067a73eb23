"""Measures Ray Data on the operations of wide_bench.cc: {"seconds": [...]}.

    ray_wide.py sort|random_shuffle|groupby_mean|join <folder> --cpus N

Results are iterated to their end as pyarrow batches in the driver, which Ray's own guides recommend over collecting them.
Run it with the python that setup_ray.sh prints.
"""

import argparse
import json
import time

from ray_cluster import cluster, say

PASSES = 3  # The first warms up.
ENOUGH_S = 30  # After so long there is no third one.


def seconds_of(what, make):
    times = []
    while len(times) < 2 or (len(times) < PASSES and sum(times) < ENOUGH_S):
        start = time.monotonic()
        rows = sum(batch.num_rows for batch in make().iter_batches(batch_size=None, batch_format="pyarrow"))
        times.append(time.monotonic() - start)
        say(f"{what}: {rows} rows in {times[-1]:.2f} s")
    return times[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sort", "random_shuffle", "groupby_mean", "join"])
    parser.add_argument("path")
    parser.add_argument("--cpus", type=int, required=True, help="that Ray is told of")
    parser.add_argument("--start-ns")
    options = parser.parse_args()
    with cluster(options.cpus) as ray:
        import logging

        logging.getLogger("ray.data").setLevel(logging.ERROR)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        # Hash-based operations have 200 partitions by default, and actors that hold them: a few partitions for each CPU,
        # and as many actors as there are CPUs, do best on one machine.
        partitions = 2 * options.cpus
        context.default_hash_shuffle_parallelism = partitions
        context.max_hash_shuffle_aggregators = options.cpus

        def trips():
            return ray.data.read_parquet(options.path)

        def mean(key):
            # A groupby does not tell the reader which columns it needs.
            return trips().select_columns([key, "fare_amount"]).groupby(key, num_partitions=partitions).mean("fare_amount")

        if options.what == "join":
            # Not by Ray, to which millions of groups take more than ten minutes.
            import pyarrow.parquet as pq

            fares = pq.read_table(options.path, columns=["tpep_pickup_datetime", "fare_amount"])
            by_second = ray.data.from_arrow(
                fares.group_by("tpep_pickup_datetime").aggregate([("fare_amount", "mean")])
            ).repartition(partitions).materialize()
            del fares
        make = {
            "sort": lambda: trips().sort("trip_distance"),
            "random_shuffle": lambda: trips().random_shuffle(seed=1),
            "groupby_mean": lambda: mean("passenger_count"),
            "join": lambda: trips().join(
                by_second, join_type="inner", num_partitions=partitions, on=("tpep_pickup_datetime",)),
        }[options.what]  # fmt: skip
        figures = {"seconds": seconds_of(options.what, make)}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
