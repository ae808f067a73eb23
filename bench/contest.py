"""What a suite of benchmarks is made of. The suites are in suites.py.

A contestant is a command line. It is called with `--start-ns <CLOCK_MONOTONIC, taken right before it is started>`, runs
everything, and prints one JSON object {"figure": value or list of values, ...} as the last line of its stdout. All
values of all its runs together give its median and quartiles.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

Command = Callable[[Path], list]  # Build folder -> command line, with everything in place that it needs.


@dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    better: str  # "higher" or "lower"
    meaning: str  # One line, for RESULTS.md.
    peers: tuple = ()  # Those that measure it, if not all. Default: every peer of the contest.
    goal_ratio: dict = field(default_factory=dict)  # {peer: how many times better than it Manta is to be, at least}
    figure: str = ""  # What the contestants call it. Default: its name.
    peer_figure: str = ""  # What the peers call it, if they measure something else. Default: as `figure`.
    counts: bool = False  # A number of events, which may be zero. Otherwise a figure is positive.
    goal_value: float | None = None  # What Manta's own figure is to stay below, or, if higher is better, to reach.

    def figure_of(self, contestant):
        own = self.figure or self.name
        return own if contestant == "manta" else self.peer_figure or own

    def ratio(self, manta, peer):
        """How many times better Manta is; None if a number of events is zero, which no ratio says."""
        if not manta or not peer:
            return None
        return manta / peer if self.better == "higher" else peer / manta


@dataclass(frozen=True)
class Contest:
    """Contestants and what they are compared by. They run in turn, one right after the other."""

    manta: Command
    # {name: Command}, or {name: {how it is set up: Command, ...}}: all of them run in the first round; the one with the
    # best median of the first metric goes on, and counts. Empty where nobody does the same: the goals are values then.
    peers: dict
    metrics: list
    deadline_s: int = 600  # For one run of one contestant.
    turns: int = 1  # In each round: more where runs are short and differences small.
    rounds: int = 100  # At most: fewer where a run takes minutes and differences are large.

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
