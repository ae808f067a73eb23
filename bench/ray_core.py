"""Measures Ray Core on one local cluster: the peer of `core_bench`, with the same metrics measured the same way.

Run it with the python that setup_ray.sh prints. The last line of stdout is one JSON object {"metric": value, ...}.
"""

import argparse
import json
import subprocess
import sys
import time

from ray_cluster import cluster, per_second, say, start_of_process, tree_pss_mb

IN_FLIGHT = 1000
STARTS, ACTORS, TABLES = 3, 5, 10  # As in core_bench.cc.


def idle_figures():
    """Proportional set size of the driver and of everything below it, 3 s after ray.init and before any task; then
    submission until result of the first task. Ray has started as many workers as there are CPUs by then."""
    import ray

    @ray.remote
    def no_op():
        pass

    figures = {"first_task_warm_ms": []}
    for i in range(STARTS):
        with cluster():
            time.sleep(3)
            if i == 0:
                figures["idle_pss_mb"] = tree_pss_mb()
            start = time.monotonic()
            ray.get(no_op.remote())
            figures["first_task_warm_ms"].append((time.monotonic() - start) * 1e3)
    return figures


def actor_starts_ms(ray, actor):
    """Creation until the first call's result, of actors that stay: each is a process of its own."""
    actors, times = [], []
    for _ in range(ACTORS):
        start = time.monotonic()
        actors.append(actor.options(num_cpus=0).remote())
        ray.get(actors[-1].no_op.remote())
        times.append((time.monotonic() - start) * 1e3)
    return times


def get_tables_us(ray):
    """Every table is the result of another task, is there when it is asked for, and is got once, in the driver. Its
    last value is read. Shared memory is mapped, nothing is copied."""
    rows = 1_250_000  # Times 10 columns of 8 bytes: 100 MB.

    @ray.remote
    def make_table(seed):
        import numpy
        import pyarrow

        return pyarrow.table({f"c{i}": numpy.full(rows, seed + 1.5 * i) for i in range(10)})

    refs = [make_table.remote(i) for i in range(TABLES)]
    ray.wait(refs, num_returns=len(refs), timeout=120)
    times = []
    for i, ref in enumerate(refs):
        start = time.perf_counter_ns()
        table = ray.get(ref)
        value = table.column(9)[rows - 1].as_py()
        times.append((time.perf_counter_ns() - start) / 1e3)
        assert value == i + 13.5, value
    return times


def measure(start_ns):
    import ray

    @ray.remote
    def no_op():
        pass

    @ray.remote
    class Actor:
        def no_op(self):
            pass

    with cluster():
        ray.get(no_op.remote())
        figures = {"first_task_cold_ms": (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - start_ns) / 1e6}
        say("first task done, cold; now actors")
        figures["actor_start_ms"] = actor_starts_ms(ray, Actor)
        actor = Actor.remote()
        for kind, call in (("tasks", no_op), ("actor_calls", actor.no_op)):
            say(f"{kind}, one by one and {IN_FLIGHT} in flight")
            figures[f"{kind}_sync_per_s"] = per_second(lambda: ray.get(call.remote()), 1)
            figures[f"{kind}_async_per_s"] = per_second(
                lambda: ray.get([call.remote() for _ in range(IN_FLIGHT)]), IN_FLIGHT
            )
        say("reading tables of 100 MB")
        figures["get_100mb_table_us"] = get_tables_us(ray)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start-ns", type=int, help="CLOCK_MONOTONIC right before this process was started")
    parser.add_argument("--idle-only", action="store_true", help="only the memory of an idle run, and its first task")
    args = parser.parse_args()
    if args.idle_only:
        print(json.dumps(idle_figures()))
        return
    figures = measure(args.start_ns or start_of_process())
    # The cold first task allows no 3 s of idling before it, and a driver that has worked is fatter than an idle one:
    # the memory is that of another driver, and of a cluster of its own.
    say("idle clusters")
    idle = subprocess.run([sys.executable, __file__, "--idle-only"], stdout=subprocess.PIPE, timeout=120, check=True)
    print(json.dumps({**figures, **json.loads(idle.stdout.splitlines()[-1])}))


if __name__ == "__main__":
    main()
