"""What is measured. To add a suite, append a Suite to SUITES; run.py and report.py know nothing of any one of them.

A contestant is a command line. It is called with `--start-ns <CLOCK_MONOTONIC, taken right before it is started>`,
runs everything, and prints one JSON object {"metric": value, ...} as the last line of its stdout.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from contestant import run_to_end

BENCH = Path(__file__).resolve().parent
RAY = "Ray 2.59.0"


@dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    better: str  # "higher" or "lower"
    meaning: str  # One line, for RESULTS.md.
    peers: tuple = ()  # Those that measure it, at least one. Default: every peer of the suite.
    goal_ratio: dict = field(default_factory=dict)  # {peer: how many times better than it Manta is to be, at least}
    goal_value: float | None = None  # What Manta's own figure is to stay below, or, if higher is better, to reach.


@dataclass(frozen=True)
class Suite:
    name: str
    about: str  # One line, for RESULTS.md.
    manta: Callable[[Path], list]  # Build folder -> command line.
    peers: dict  # {name: function that installs the peer where it is missing and returns its command line}
    metrics: list
    deadline_s: int = 600  # For one run of one contestant.

    def measured_by(self, contestant):
        """The metrics that this contestant has to report: all of them if it is manta."""
        return [m for m in self.metrics if contestant == "manta" or not m.peers or contestant in m.peers]


def ray_core():
    python = run_to_end([str(BENCH / "setup_ray.sh")], deadline_s=1800, show_stderr=True).strip()
    return [python, str(BENCH / "ray_core.py")]


def rate(name, meaning):
    return Metric(name, "1/s", "higher", meaning, goal_ratio={RAY: 10})


CORE = Suite(
    name="core",
    about="Tasks, actors and objects on one machine, with 2 worker processes.",
    manta=lambda build: [str(build / "bench" / "core_bench")],
    peers={RAY: ray_core},
    metrics=[
        Metric("first_task_cold_ms", "ms", "lower", "start of the program until its first no-op task has its result"),
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
)  # fmt: skip

SUITES = [CORE]
