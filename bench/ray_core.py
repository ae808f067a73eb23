"""Measures Ray Core on one local cluster: the peer of `core_bench`, with the same metrics measured the same way.

Run it with the python that setup_ray.sh prints. The last line of stdout is one JSON object {"metric": value, ...}.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from ray_cluster import cluster, say, start_of_process, tree_pss_mb

WARM_UP_S, MEASURE_S = 1.0, 3.0
IN_FLIGHT = 1000


def idle_pss_mb():
    """Proportional set size of the driver and of everything below it, 3 s after ray.init and before any task."""
    with cluster():
        time.sleep(3)
        return tree_pss_mb()


def per_second(batch, calls):
    """Calls a second over at least MEASURE_S, where one run of `batch` makes `calls` calls."""
    deadline = time.monotonic() + WARM_UP_S
    while time.monotonic() < deadline:
        batch()
    done, start = 0, time.monotonic()
    while (elapsed := time.monotonic() - start) < MEASURE_S:
        batch()
        done += calls
    return done / elapsed


def first_task_warm_ms(ray):
    """Submission until result of a no-op task that needs a new worker process, on an idle initialised cluster.

    Ray starts as many workers as there are CPUs before they are asked for, and reuses them. It does not give them to a
    task whose runtime environment differs, so an environment variable of its own value makes each of these tasks
    wait for a process to start. That the process is new is checked by its id. Median of five. Setting up the
    runtime environment is included, and is a part of it: a worker that Ray starts without one, because all others are
    busy, took 0.14 to 0.5 s where this took 0.8 s.
    """
    pid = ray.remote(lambda: os.getpid())
    seen = {ray.get(pid.remote()) for _ in range(10)}
    times = []
    for i in range(5):
        time.sleep(1)  # Idle again: the worker of the last round is up, nothing else is starting.
        start = time.monotonic()
        worker = ray.get(pid.options(runtime_env={"env_vars": {"BENCH_FIRST_TASK": str(i)}}).remote())
        times.append((time.monotonic() - start) * 1e3)
        assert worker not in seen, f"task {i} ran in process {worker}, which was there before"
        seen.add(worker)
    return statistics.median(times)


def get_100mb_table_us(ray):
    """ray.get, in the driver, of a 100 MB table in the object store: shared memory is mapped, nothing is copied."""
    import numpy
    import pyarrow

    rows = 1_250_000  # times 10 columns of 8 bytes = 100 MB
    ref = ray.put(pyarrow.table({f"c{i}": numpy.random.default_rng(i).random(rows) for i in range(10)}))
    times, deadline = [], time.monotonic() + MEASURE_S
    while time.monotonic() < deadline:
        start = time.perf_counter_ns()
        table = ray.get(ref)
        seen = table.num_rows
        times.append(time.perf_counter_ns() - start)
        assert seen == rows
        del table
    return statistics.median(times[len(times) // 10 :]) / 1e3  # The first tenth warms up.


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
        say("first task done, cold; now first tasks of new workers")
        figures["first_task_warm_ms"] = first_task_warm_ms(ray)
        actor = Actor.remote()
        for kind, call in (("tasks", no_op), ("actor_calls", actor.no_op)):
            say(f"{kind}, one by one and {IN_FLIGHT} in flight")
            figures[f"{kind}_sync_per_s"] = per_second(lambda: ray.get(call.remote()), 1)
            figures[f"{kind}_async_per_s"] = per_second(
                lambda: ray.get([call.remote() for _ in range(IN_FLIGHT)]), IN_FLIGHT
            )
        say("reading a 100 MB table")
        figures["get_100mb_table_us"] = get_100mb_table_us(ray)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start-ns", type=int, help="CLOCK_MONOTONIC right before this process was started")
    parser.add_argument("--idle-only", action="store_true", help="measure idle_pss_mb and nothing else")
    args = parser.parse_args()
    if args.idle_only:
        print(json.dumps({"idle_pss_mb": idle_pss_mb()}))
        return
    figures = measure(args.start_ns or start_of_process())
    # The cold first task allows no 3 s of idling before it, and a driver that has worked is fatter than an idle one:
    # the memory is that of another driver, and of a cluster of its own.
    say("memory of an idle cluster")
    idle = subprocess.run([sys.executable, __file__, "--idle-only"], stdout=subprocess.PIPE, timeout=120, check=True)
    print(json.dumps({**figures, **json.loads(idle.stdout.splitlines()[-1])}))


if __name__ == "__main__":
    main()
