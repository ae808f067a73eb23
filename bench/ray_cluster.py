"""A local Ray cluster for one measurement, and what all contestants that use Ray need."""

import contextlib
import os
import shutil
import sys
import tempfile
import time

from taxi_features import COLUMNS, arrays_of, columns_of

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # Reports nothing to anybody, and does not spend time on it.
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"  # The coming default; unset, every worker warns about it.
os.environ["RAY_TRAIN_V2_ENABLED"] = "1"
# Workers keep freed memory instead of giving it back to the kernel after each step: see train_bare in taxi_figures.cc.
os.environ["MALLOC_TRIM_THRESHOLD_"] = os.environ["MALLOC_MMAP_THRESHOLD_"] = str(1 << 30)


def start_of_process():
    """When this process was started, if the caller did not say: exact to a clock tick (10 ms), as the kernel is."""
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    since_boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * 10**9 // os.sysconf("SC_CLK_TCK")
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) - since_boot


def say(text):
    print(f"{os.path.basename(sys.argv[0])}: {text}", file=sys.stderr, flush=True)


def per_second(batch, calls):
    """Calls a second, where one run of `batch` makes `calls` of them: warmed up for 1 s, measured for 3 s at least."""
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        batch()
    done, start = 0, time.monotonic()
    while (elapsed := time.monotonic() - start) < 3:
        batch()
        done += calls
    return done / elapsed


@contextlib.contextmanager
def cluster(cpus=2):
    """A local cluster. `cpus` is what Ray is told of: how much it starts at once. On the way out it waits until every
    process of the cluster is gone."""
    import psutil
    import ray

    folder = tempfile.mkdtemp(prefix="ray-")  # Ray keeps logs and sockets there and never deletes them.
    try:
        ray.init(num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level="ERROR", _temp_dir=folder)
        yield ray
    finally:
        # All of them descend from this process: ray.init starts the daemons, and those start the workers.
        processes = psutil.Process().children(recursive=True)
        ray.shutdown()
        _, alive = psutil.wait_procs(processes, timeout=20)
        for process in alive:
            say(f"killing {process}, which outlived ray.shutdown() by 20 s")
            process.kill()
        psutil.wait_procs(alive, timeout=10)
        shutil.rmtree(folder, ignore_errors=True)


def tree_pss_mb():
    """Proportional set size of the driver and of everything below it now, in 10^6 bytes."""
    import psutil

    driver, total = psutil.Process(), 0
    for process in [driver, *driver.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):  # Ray's monitors run short commands now and then.
            total += process.memory_full_info().pss
    return total / 1e6


def load_taxi(path, form):
    """The taxi pipeline on Ray Data, in one of RAY_FORMS: one function on whole pyarrow blocks without a copy.
    Expressions alone cannot say it: Ray's have no day of the week."""
    import ray
    from ray.data.expressions import col

    ray.data.DataContext.get_current().enable_progress_bars = False
    trips = ray.data.read_parquet(path)
    if form == "filter":
        wanted = (col("passenger_count") <= 4) & (col("trip_distance") < 100) & (col("fare_amount") < 1000)
        trips = trips.filter(expr=wanted)
    return trips.select_columns(COLUMNS).map_batches(
        columns_of if form == "columns" else arrays_of, batch_format="pyarrow", batch_size=None, zero_copy_batch=True
    )
