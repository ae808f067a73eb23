"""Measures Ray Core over two hosts: the peer of `hosts_bench calls`, with the same metrics measured the same way.

on_hosts starts it on the head of a cluster whose CPUs are all on the other host. The last line of stdout is one JSON
object {"metric": value, ...}.
"""

import argparse
import json
import time

from ray_cluster import per_second

OBJECTS, VALUES = 8, 32_000_000  # As in hosts_bench.cc.
IN_FLIGHT = 1000


def object_rates(ray):
    """Each is there when it is asked for, and is got once; its last value is read."""

    @ray.remote
    def make_values(seed):
        import numpy

        return numpy.full(VALUES, seed + 0.5)

    rates = []
    for i in range(OBJECTS):
        ref = make_values.remote(i)
        ray.wait([ref], timeout=60, fetch_local=False)
        start = time.monotonic()
        value = ray.get(ref)[VALUES - 1]
        rates.append(8e-9 * VALUES / (time.monotonic() - start))
        assert value == i + 0.5, value
        del ref
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start-ns", type=int, help="not used")
    parser.parse_args()
    import ray

    ray.init(address="auto", log_to_driver=False, logging_level="ERROR")

    @ray.remote
    def no_op():
        pass

    figures = {
        "remote_tasks_sync_per_s": per_second(lambda: ray.get(no_op.remote()), 1),
        "remote_tasks_async_per_s": per_second(
            lambda: ray.get([no_op.remote() for _ in range(IN_FLIGHT)]), IN_FLIGHT
        ),
        "remote_object_gb_per_s": object_rates(ray),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
