#!/usr/bin/env python3
"""Compares two builds of Manta by its benchmarks, without peers: whether a change has made anything slower.

    git worktree add /tmp/before <commit>, and build `benches` there, preset release
    bench/compare.py /tmp/before/build/release build/release --suite core --rounds 5

The builds run in turn. For each metric it prints both medians, and the median and quartiles of how many times better
the second build was than the first one in the same turn. A contest that the first build does not know is left out.
"""

import argparse
import signal
import statistics
import sys
from pathlib import Path

from contestant import Failed, measure
from results import quartiles
from suites import SUITES


def say(text):
    print(text, flush=True)


def figures(contest, build):
    """{metric: median} of one run."""
    wanted = {m.name: m.figure_of("manta") for m in contest.metrics}
    counts = {m.name for m in contest.metrics if m.counts}
    got = measure(contest.manta(build), wanted, contest.deadline_s, counts=counts)
    return {name: statistics.median(values) for name, values in got.items()}


def compare(contest, builds, turns):
    """[{metric: median}, the same of the other build], of every turn."""
    pairs = []
    for turn in range(turns):
        order = (0, 1) if turn % 2 == 0 else (1, 0)
        pair = [{}, {}]
        for which in order:
            pair[which] = figures(contest, builds[which])
        pairs.append(pair)
    return pairs


def line_of(metric, pairs):
    first, second = ([pair[which][metric.name] for pair in pairs] for which in (0, 1))
    ratios = [ratio for a, b in zip(first, second) if (ratio := metric.ratio(b, a)) is not None]
    text = f"{metric.name:<32} {statistics.median(first):>12.5g} {statistics.median(second):>12.5g} {metric.unit:<9}"
    if not ratios:
        return text
    low, high = quartiles(ratios)
    return f"{text} {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the build folder of the first")
    parser.add_argument("after", type=Path, help="that of the second")
    parser.add_argument("--suite", action="append", choices=[s.name for s in SUITES], help="default: every suite")
    parser.add_argument("--metric", action="append", choices=[m.name for s in SUITES for m in s.metrics],
                        help="only the contests that measure it")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f"--rounds must be positive (was {args.rounds})")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    builds = (args.before.resolve(), args.after.resolve())
    say(f"{'metric':<32} {'before':>12} {'after':>12} {'':<9} times better")
    for suite in SUITES:
        if args.suite and suite.name not in args.suite:
            continue
        for contest in suite.contests:
            if args.metric and not {m.name for m in contest.metrics} & set(args.metric):
                continue
            try:
                pairs = compare(contest, builds, args.rounds * contest.turns)
            except Failed as e:
                say(f"left out: {', '.join(m.name for m in contest.metrics)}: {str(e).splitlines()[0]}")
                continue
            shown = {m.figure_of("manta"): m for m in reversed(contest.metrics)}  # Peers may share a figure.
            for metric in reversed(shown.values()):
                say(line_of(metric, pairs))


if __name__ == "__main__":
    main()
