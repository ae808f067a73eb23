#!/usr/bin/env python3
"""Runs the benchmarks of Manta against its peers; writes results.json and RESULTS.md, and README's table.

    bench/run.py                                    everything, 3 rounds
    bench/run.py --suite train --rounds 3           one suite; figures of the others stay
    bench/run.py --metric recovery_s --into /tmp/x  one contest; results.json and RESULTS.md in another folder
    bench/run.py --tables [--check]                 runs nothing: writes (or compares) the tables from results.json

The contestants that are compared run in turn (manta, ray, manta, ray, ...), so that a slow phase of the machine hits
all of them. What there is to run and to measure is in suites.py.
"""

import argparse
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import machine
import readme
import report
from commands import ray_python
from contestant import Failed, measure
from results import BENCH, best_setup, rows_of, save
from suites import SUITES

PROGRAMS = ("core_bench", "training_bench", "libslow_disk.so", "workflow_bench", "bare_serve", "wide_bench",
            "preprocess_bench", "data_bench", "hosts_bench", "stub_agents", "on_hosts")  # fmt: skip


def say(text):
    print(text, flush=True)


class Runs:
    """The runs of one contest so far."""

    def __init__(self, contest, build_dir):
        self.contest = contest
        self.commands = {("manta", ""): contest.manta(build_dir)}
        for peer, command in contest.peers.items():
            setups = command if isinstance(command, dict) else {"": command}
            self.commands |= {(peer, setup): command(build_dir) for setup, command in setups.items()}
        self.values = {key: {} for key in self.commands}

    def run_in_turn(self, label):
        """Every contestant `turns` times; of one with several setups, the best alone once there is one."""
        for (peer, setup), argv in list(self.commands.items()) * self.contest.turns:
            if setup and self.values[peer, setup] and setup != self.setup_of(peer):
                continue
            metrics = self.contest.measured_by(peer)
            start = time.monotonic()
            wanted = {m.name: m.figure_of(peer) for m in metrics}
            got = measure(argv, wanted, self.contest.deadline_s, counts={m.name for m in metrics if m.counts})
            for name, values in got.items():
                self.values[peer, setup].setdefault(name, []).extend(values)
            who = peer + (f" ({setup})" if setup else "")
            say(f"{label}: {', '.join(m.name for m in metrics)}: {who} took {time.monotonic() - start:.1f} s")

    def setups(self, peer):
        """{how it was set up: its values}, of those that have been tried; empty if there is only one."""
        return {setup: got for (name, setup), got in self.values.items() if name == peer and setup and got}

    def setup_of(self, peer):
        metric = self.contest.measured_by(peer)[0]
        tried = {setup: values[metric.name] for setup, values in self.setups(peer).items()}
        return best_setup(metric, tried) if tried else ""

    def rows(self, suite, measured):
        """Those of results.json."""
        peers = ["manta", *self.contest.peers]
        values = {peer: self.values[peer, self.setup_of(peer)] for peer in peers}
        return rows_of(suite, self.contest, values, {peer: self.setups(peer) for peer in peers}, measured)


def run_suite(suite, args):
    """Returns what failed, in words."""
    say(f"{suite.name}: preparing")
    if missing := [name for name in PROGRAMS if not (args.build_dir / "bench" / name).exists()]:
        raise Failed(f"{args.build_dir}/bench has no {', '.join(missing)}: build `benches`, or give a --build-dir")
    contests = [Runs(contest, args.build_dir) for contest in suite.contests]
    versions = machine.versions(ray_python())
    began, loads, done, failures = machine.now(), [machine.load()], [], []
    for n in range(1, args.rounds + 1):
        for runs in contests:
            if n > runs.contest.rounds:
                continue
            try:
                runs.run_in_turn(f"{suite.name}: round {n} of {args.rounds}")
            except Failed as e:  # Does not cost the other contests.
                failures.append(str(e))
                say(f"FAILED: {e}")
                continue
            loads.append(machine.load())
            measured = {
                "date": began,
                "rounds": n,
                "turns": runs.contest.turns,
                "machine": machine.machine(),
                "load": [loads[0], max(loads)],  # At the start, and at most between two contests.
                "build": machine.build_flags(args.build_dir),
                "versions": versions,
            }
            rows = runs.rows(suite, measured)
            done = [row for row in done if row["name"] not in {r["name"] for r in rows}] + rows
            save(args.into, rows)  # What fails or is interrupted later does not cost what is there.
        say(report.plain_table(suite, done))
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=BENCH.parent / "build" / "release")
    parser.add_argument("--suite", action="append", choices=[s.name for s in SUITES], help="default: every suite")
    parser.add_argument("--metric", action="append", choices=[m.name for s in SUITES for m in s.metrics],
                        help="only the contests that measure it")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--into", type=Path, default=BENCH, help="the folder of results.json and RESULTS.md")
    parser.add_argument("--tables", action="store_true", help="only write RESULTS.md and README's table")
    parser.add_argument("--check", action="store_true", help="with --tables: write nothing, fail if they differ")
    args = parser.parse_args()
    args.into.mkdir(parents=True, exist_ok=True)  # now, not after minutes of measuring
    if args.rounds < 1:
        parser.error(f"--rounds must be positive (was {args.rounds})")
    if args.tables:
        sys.exit(readme.write_tables(check=args.check))
    # As an exception, SIGTERM reaches the code that ends the contestant with this program.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args.build_dir = args.build_dir.resolve()
    failures = []
    for suite in SUITES:
        wanted = [c for c in suite.contests if not args.metric or {m.name for m in c.metrics} & set(args.metric)]
        if wanted and (not args.suite or suite.name in args.suite):
            try:
                failures += run_suite(replace(suite, contests=wanted), args)
            except Failed as e:
                sys.exit(f"bench/run.py: {e}")
    say(f"wrote {args.into / 'results.json'} and {args.into / 'RESULTS.md'}")
    if args.into == BENCH:
        readme.write_tables()
    if failures:
        sys.exit("bench/run.py: these failed; figures of their contests may be older:\n" + "\n".join(failures))


if __name__ == "__main__":
    main()
