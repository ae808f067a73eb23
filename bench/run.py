#!/usr/bin/env python3
"""Runs the benchmarks of Manta against its peers; writes results.json and RESULTS.md beside this file.

    bench/run.py --build-dir build/release [--only core] [--rounds 3]

The contestants that are compared run in turn (manta, ray, manta, ray, ...), so that a slow phase of the machine hits
all of them, and the median over the rounds counts. What there is to run and to measure is in suites.py.
"""

import argparse
import json
import signal
import statistics
import sys
import time
from pathlib import Path

import report
from contestant import Failed, measure
from suites import SUITES

BENCH = Path(__file__).resolve().parent
RESULTS = BENCH / "results.json"


def say(text):
    print(text, flush=True)


def rows_of(suite, contest, runs):
    """The rows of results.json from a contest's runs so far, {contestant: [{metric: value}, ...]}."""
    rows = []
    for metric in contest.metrics:
        manta = statistics.median(run[metric.name] for run in runs["manta"])
        for peer_name in contest.peers:
            if metric not in contest.measured_by(peer_name):
                continue
            peer = statistics.median(run[metric.name] for run in runs[peer_name])
            ratio = manta / peer if metric.better == "higher" else peer / manta
            digits = [float(f"{x:.5g}") for x in (manta, peer, ratio)]  # More would be noise, and noise in diffs.
            rows.append(
                {
                    "suite": suite.name,
                    "name": metric.name,
                    "unit": metric.unit,
                    "manta": digits[0],
                    "peer_name": peer_name,
                    "peer": digits[1],
                    "ratio": digits[2],
                    "better": metric.better,
                    "measured": report.measured_now(rounds=len(runs["manta"])),
                }
            )
    return rows


def prepare(contest, build_dir):
    """{contestant: command line}, with everything in place that it needs."""
    manta = contest.manta(build_dir)
    if not Path(manta[0]).exists():  # Before minutes go into installing a peer.
        raise Failed(f"{manta[0]} does not exist: build it, or give another --build-dir")
    return {"manta": manta, **{name: peer(build_dir) for name, peer in contest.peers.items()}}


def run_suite(suite, build_dir, rounds):
    say(f"{suite.name}: preparing")
    commands = [prepare(contest, build_dir) for contest in suite.contests]
    runs = [{name: [] for name in contestants} for contestants in commands]
    for n in range(1, rounds + 1):
        for contest, contestants, results in zip(suite.contests, commands, runs):
            for name, argv in list(contestants.items()) * contest.turns:
                start, metrics = time.monotonic(), contest.measured_by(name)
                results[name].append(measure(argv, {m.name: m.figure or m.name for m in metrics}, contest.deadline_s))
                took = f"{time.monotonic() - start:.1f} s"
                say(f"{suite.name}: round {n} of {rounds}: {', '.join(m.name for m in metrics)}: {name} took {took}")
        rows = [row for contest, results in zip(suite.contests, runs) for row in rows_of(suite, contest, results)]
        save(suite, rows)  # What fails or is interrupted later does not cost the rounds before it.
        say(report.plain_table(suite, rows))


def save(suite, rows):
    """Replaces the suite's rows in the files and keeps those of the other suites."""
    old = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    both = [row for row in old if row["suite"] != suite.name] + rows
    both = [row for s in SUITES for row in both if row["suite"] == s.name]
    RESULTS.write_text(json.dumps(both, indent=2, ensure_ascii=False) + "\n")
    (BENCH / "RESULTS.md").write_text(report.markdown(SUITES, both))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=BENCH.parent / "build" / "release")
    parser.add_argument("--only", action="append", choices=[s.name for s in SUITES], help="default: every suite")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f"--rounds must be positive (was {args.rounds})")
    # As an exception, SIGTERM reaches the code that ends the contestant with this program.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for suite in SUITES:
        if args.only and suite.name not in args.only:
            continue
        try:
            run_suite(suite, args.build_dir.resolve(), args.rounds)
        except Failed as e:
            sys.exit(f"bench/run.py: {e}")
    say(f"wrote {RESULTS} and {BENCH / 'RESULTS.md'}")


if __name__ == "__main__":
    main()
