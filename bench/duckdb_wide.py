"""Measures DuckDB itself on the queries of wide_bench.cc: the same figures.

    duckdb_wide.py <folder>

Results are read to their end in Arrow batches. Run it with the python that setup_ray.sh prints.
"""

import argparse
import json
import sys
import time

import duckdb

PASSES = 3  # The first warms up.


def seconds_of(con, what, query):
    times = []
    for _ in range(PASSES):
        start = time.monotonic()
        rows = sum(batch.num_rows for batch in con.execute(query).to_arrow_reader(65_536))
        times.append(time.monotonic() - start)
        print(f"{what}: {rows} rows in {times[-1]:.2f} s", file=sys.stderr)
    return times[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--start-ns")
    trips = f"read_parquet('{parser.parse_args().path}/*.parquet')"
    con = duckdb.connect(config={"threads": 2})
    figures = {
        "sort_s": seconds_of(con, "sort", f"select * from {trips} order by trip_distance"),
        "random_shuffle_s": seconds_of(
            con, "random_shuffle",
            f"select t.* from (select *, row_number() over () as id from {trips}) t order by hash(id + 1), id"),
        "groupby_mean_s": seconds_of(
            con, "groupby",
            f"select passenger_count, avg(fare_amount) from {trips} group by passenger_count order by passenger_count"),
    }  # fmt: skip
    con.execute(f"create table seconds as select tpep_pickup_datetime, avg(fare_amount) as mean_fare from {trips} "
                "group by tpep_pickup_datetime")
    figures["join_s"] = seconds_of(con, "join", f"select * from {trips} join seconds using (tpep_pickup_datetime)")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
