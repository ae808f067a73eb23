"""Measures DuckDB itself on the queries of wide_bench.cc: {"seconds": [...]}.

    duckdb_wide.py sort|random_shuffle|groupby_mean|join <folder>

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
    parser.add_argument("what", choices=["sort", "random_shuffle", "groupby_mean", "join"])
    parser.add_argument("path")
    parser.add_argument("--start-ns")
    options = parser.parse_args()
    trips = f"read_parquet('{options.path}/*.parquet')"
    con = duckdb.connect(config={"threads": 2})
    if options.what == "join":
        con.execute(f"create table seconds as select tpep_pickup_datetime, avg(fare_amount) as mean_fare from {trips} "
                    "group by tpep_pickup_datetime")  # fmt: skip
    query = {
        "sort": f"select * from {trips} order by trip_distance",
        "random_shuffle":
            f"select t.* from (select *, row_number() over () as id from {trips}) t order by hash(id + 1), id",
        "groupby_mean":
            f"select passenger_count, avg(fare_amount) from {trips} group by passenger_count order by passenger_count",
        "join": f"select * from {trips} join seconds using (tpep_pickup_datetime)",
    }[options.what]  # fmt: skip
    print(json.dumps({"seconds": seconds_of(con, options.what, query)}))


if __name__ == "__main__":
    main()
