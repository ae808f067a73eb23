"""What is measured. To add a suite, append a Suite to SUITES; run.py and report.py know nothing of any one of them.

A suite is made of contests, each with contestants that are compared. A contestant is a command line. It is called with
`--start-ns <CLOCK_MONOTONIC, taken right before it is started>`, runs everything, and prints one JSON object
{"figure": value, ...} as the last line of its stdout.
"""

import functools
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from contestant import run_to_end

BENCH = Path(__file__).resolve().parent
RAY = "Ray 2.59.0"
ARROW = "pyarrow 26.0.1"
BARE = "libtorch 2.13.0 alone"
ONE_WORKER = "Manta, 1 worker"
TWO_BARE = "libtorch 2.13.0 alone, twice"


@dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    better: str  # "higher" or "lower"
    meaning: str  # One line, for RESULTS.md.
    peers: tuple = ()  # Those that measure it, at least one. Default: every peer of the contest.
    goal_ratio: dict = field(default_factory=dict)  # {peer: how many times better than it Manta is to be, at least}
    figure: str = ""  # What the contestants call it. Default: its name.
    goal_value: float | None = None  # What Manta's own figure is to stay below, or, if higher is better, to reach.


@dataclass(frozen=True)
class Contest:
    """Contestants and what they are compared by. They run in turn, one right after the other."""

    manta: Callable[[Path], list]  # Build folder -> command line.
    peers: dict  # {name: the same, installing first what is missing}
    metrics: list
    deadline_s: int = 600  # For one run of one contestant.
    turns: int = 1  # In each round: more where runs are short and differences small.

    def measured_by(self, contestant):
        """The metrics that this contestant has to report: all of them if it is manta."""
        return [m for m in self.metrics if contestant == "manta" or not m.peers or contestant in m.peers]


@dataclass(frozen=True)
class Suite:
    name: str
    about: str  # One line, for RESULTS.md.
    contests: list

    @property
    def metrics(self):
        return [metric for contest in self.contests for metric in contest.metrics]


@functools.cache
def ray_python():
    return run_to_end([str(BENCH / "setup_ray.sh")], deadline_s=1800, show_stderr=True).strip()


def program(*arguments):
    """Manta's, e.g. program("core_bench", "--flag")."""
    return lambda build: [str(build / "bench" / arguments[0]), *map(str, arguments[1:])]


def script(*arguments):
    """One that the python of the Ray installation runs."""
    return lambda build: [ray_python(), str(BENCH / arguments[0]), *map(str, arguments[1:])]


def taxi(command, rows, row_group, *options):
    """A program or script with a file of taxi trips as its argument, which is made first if it is missing."""

    def command_line(build):
        # Made once: it takes seconds and stays the same.
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "manta" / "bench"
        file = folder / f"taxi_{rows}_{row_group}.parquet"
        if not file.exists():
            folder.mkdir(parents=True, exist_ok=True)
            partial = file.with_suffix(".partial")
            make = program("training_bench", "make", partial, "--rows", rows, "--row-group", row_group)
            run_to_end(make(build), deadline_s=600)
            partial.rename(file)
        return [*command(build), str(file), *map(str, options)]

    return command_line


def rate(name, meaning):
    return Metric(name, "1/s", "higher", meaning, goal_ratio={RAY: 10})


CORE = Suite(
    name="core",
    about="Tasks, actors and objects on one machine, with 2 worker processes.",
    contests=[Contest(
        manta=program("core_bench"),
        peers={RAY: script("ray_core.py")},
        metrics=[
            Metric("first_task_cold_ms", "ms", "lower",
                   "start of the program until its first no-op task has its result"),
            Metric("first_task_warm_ms", "ms", "lower", goal_value=20,
                   meaning="a no-op task on an idle initialised runtime, for which a new worker process has to start "
                   "(Ray: forced by a runtime environment of the task's own, whose set-up is included)"),
            rate("tasks_sync_per_s", "no-op tasks, each waited for before the next is submitted"),
            rate("tasks_async_per_s", "no-op tasks, 1,000 submitted and then all waited for, repeatedly"),
            rate("actor_calls_sync_per_s", "calls of one actor's no-op method, each waited for before the next"),
            rate("actor_calls_async_per_s", "calls of one actor's no-op method, 1,000 in flight as above"),
            Metric("get_100mb_table_us", "µs", "lower",
                   "getting a 100 MB Arrow table of float64 columns that was put before, in the driver; median"),
            Metric("idle_pss_mb", "MB", "lower", goal_value=70,
                   meaning="memory (PSS, in 10^6 bytes) of all processes, driver included, 3 s after the runtime is "
                   "initialised and before any task"),
        ],
    )],
)  # fmt: skip

SMALL, BIG = (200_000, 65_536), (6_400_000, 262_144)  # Rows, and rows of a row group.
TRAIN, BARE_TRAIN = program("training_bench", "train"), program("training_bench", "bare")
FEW_ROWS = ("--rows", 1_600_000)  # Of the big file, so that a run takes seconds.


def training(name, peer, goal, meaning, manta, other):
    """Rows a second of the taxi training loop."""
    metric = Metric(name, "rows/s", "higher", meaning, figure="rows_per_s", goal_ratio={peer: goal})
    return Contest(manta=manta, peers={peer: other}, metrics=[metric], turns=1 if peer == RAY else 3)


TRAINING = Suite(
    name="train",
    about="Training a small model on one machine (the taxi example: an MLP of 6-256-16-1 with BatchNorm, Adam, one "
    "thread), and what a training run costs beside the training. Rates are those of a whole epoch after a first one, "
    "reading included, and count the rows of all workers.",
    contests=[
        Contest(
            manta=program("training_bench", "fit"),
            peers={RAY: script("ray_train.py", "fit")},
            metrics=[
                Metric("empty_fit_2_workers_s", "s", "lower", goal_value=0.2,
                       meaning="TorchTrainer::fit() of a loop that only reports, 2 workers, not the program's first"),
                Metric("empty_fit_cold_s", "s", "lower", goal_value=1,
                       meaning="start of the program until its first such fit() has returned"),
            ],
        ),
        training("taxi_b64_1w_vs_bare", BARE, 0.92, "taxi, batches of 64 rows, 1 worker; peer: tensors in memory",
                 taxi(TRAIN, *SMALL, "--batch", 64), taxi(BARE_TRAIN, *SMALL, "--batch", 64)),
        Contest(
            manta=taxi(TRAIN, *SMALL, "--batch", 64, "--workers", 2),
            peers={
                ONE_WORKER: taxi(TRAIN, *SMALL, "--batch", 64),
                TWO_BARE: taxi(BARE_TRAIN, *SMALL, "--batch", 64, "--workers", 2),
            },
            metrics=[
                Metric("taxi_b64_2w_vs_1w", "rows/s", "higher", figure="rows_per_s", peers=(ONE_WORKER,),
                       goal_ratio={ONE_WORKER: 1.5}, meaning="taxi, batches of 64 rows, 2 workers"),
                Metric("taxi_b64_2w_vs_2_bare", "rows/s", "higher", figure="rows_per_s", peers=(TWO_BARE,),
                       meaning="the same; peer: two independent loops on tensors in memory at once, twice the rate of "
                       "the slower, which is what two cores can give where they are not equally fast"),
            ],
            turns=5,
        ),
        training("taxi_b4096_1w_vs_bare", BARE, 0.95, "taxi, batches of 4,096 rows, 1 worker; peer: tensors in memory",
                 taxi(TRAIN, *BIG, "--batch", 4096, *FEW_ROWS), taxi(BARE_TRAIN, *BIG, "--batch", 4096, *FEW_ROWS)),
        training("taxi_b4096_2w_vs_ray", RAY, 2, "taxi, batches of 4,096 rows, 2 workers",
                 taxi(TRAIN, *BIG, "--batch", 4096, "--workers", 2, *FEW_ROWS),
                 taxi(script("ray_train.py", "taxi"), *BIG, "--batch", 4096, "--workers", 2, *FEW_ROWS)),
        Contest(
            manta=program("training_bench", "kill"),
            peers={RAY: script("ray_train.py", "kill")},
            metrics=[Metric("recovery_s", "s", "lower", goal_value=0.2,
                            meaning="SIGKILL of one of two workers until the loop runs again in both")],
        ),
        Contest(
            manta=program("training_bench", "checkpoint"),
            peers={RAY: script("ray_train.py", "checkpoint")},
            metrics=[
                Metric("checkpoint_1gib_hold_s", "s", "lower", goal_value=0.15,
                       meaning="how long saving a model of 1 GiB holds the loop (Ray: torch.save and report), second "
                       "and later checkpoints of a run"),
                Metric("checkpoint_1gib_first_hold_s", "s", "lower", "the same, a run's first checkpoint"),
            ],
        ),
    ],
)  # fmt: skip

DATA = Suite(
    name="data",
    about="Reading 6.4 million taxi trips from Parquet, filtering them and computing features.",
    contests=[
        Contest(
            manta=taxi(program("training_bench", "ingest"), *BIG),
            peers={
                ARROW: taxi(script("arrow_scan.py"), *BIG),
                RAY: taxi(script("ray_data.py", "ingest"), *BIG),
            },
            metrics=[
                Metric("ingest_vs_arrow_scan", "rows/s", "higher", figure="rows_per_s", peers=(ARROW,),
                       goal_ratio={ARROW: 0.77},
                       meaning="rows as float tensors in batches of 4,096, in one training worker; peer: pyarrow's "
                       "scanner with the same expressions pushed down, neither cut into batches nor made tensors"),
                Metric("ingest_vs_ray", "rows/s", "higher", figure="rows_per_s", peers=(RAY,), goal_ratio={RAY: 8},
                       meaning="the same; peer: iter_torch_batches in the driver, after a first pass"),
            ],
        ),
        Contest(
            manta=taxi(program("training_bench", "ingest-peak"), *BIG),
            peers={RAY: taxi(script("ray_data.py", "ingest-peak"), *BIG)},
            metrics=[Metric("ingest_peak_mb", "MB", "lower", goal_value=400,
                            meaning="memory (PSS, in 10^6 bytes) of all processes meanwhile at most, driver included")],
        ),
    ],
)  # fmt: skip

FLAT = (200_000, 262_144)  # One row group.
LARGE_GROUPS = "Manta, one row group"
NO_FUNCTION = "Manta, without map_batches"


def shape(name, workers, row_group, peer, goal, meaning, *options):
    """Rows a second of the taxi training loop on the same trips in another shape."""
    train = ("--workers", workers, *options)
    manta = (*train, "--map-batches") if peer == NO_FUNCTION else train
    metric = Metric(f"{name}_{workers}w", "rows/s", "higher", f"{meaning}, {workers} worker{'s' * (workers > 1)}",
                    figure="rows_per_s", goal_ratio={peer: goal})  # fmt: skip
    return Contest(manta=taxi(TRAIN, 200_000, row_group, *manta), peers={peer: taxi(TRAIN, *FLAT, *train)},
                   metrics=[metric])  # fmt: skip


SHAPES = Suite(
    name="shapes",
    about="The taxi training loop on the same 200,000 trips, stored in small row groups or passed through a function. "
    "The peer is the same loop on one row group of 262,144 rows: what the shape costs.",
    contests=[
        contest
        for workers in (1, 2)
        for contest in (
            shape("taxi_groups_of_100", workers, 100, LARGE_GROUPS, 1 / 3, "row groups of 100 rows, batches of 64",
                  "--batch", 64),
            shape("taxi_groups_of_1000", workers, 1_000, LARGE_GROUPS, 1 / 3, "row groups of 1,000 rows, batches of 64",
                  "--batch", 64),
            shape("taxi_groups_of_100_b4096", workers, 100, LARGE_GROUPS, 1 / 3,
                  "row groups of 100 rows, batches of 4,096", "--batch", 4096),
            shape("taxi_map_batches_b32", workers, 262_144, NO_FUNCTION, 0.8,
                  "map_batches at its default of 4,096 rows, batches of 32", "--batch", 32),
        )
    ],
)  # fmt: skip

SUITES = [CORE, TRAINING, SHAPES, DATA]
