"""Of the rules by which contestants run, and their figures become results.json and its tables."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import readme
import report
import results
import run
from contest import Contest, Metric, Suite
from suites import SUITES

FAST = Metric("fast", "rows/s", "higher", "speed", goal_ratio={"peer": 2})
SHORT = Metric("short", "s", "lower", "time", goal_value=0.5)
SUITE = Suite("toy", "toys", [Contest(manta=None, peers={"peer": None}, metrics=[FAST, SHORT])])
MEASURED = {"date": "today", "rounds": 1, "turns": 1, "machine": "m", "load": [0, 1], "build": "b", "versions": {}}


def toy_rows(setups={}):
    values = {"manta": {"fast": [30, 10, 20], "short": [0.4]}, "peer": {"fast": [10], "short": [2]}}
    return results.rows_of(SUITE, SUITE.contests[0], values, setups, MEASURED)


def printing(**figures):
    """A contestant."""
    return lambda build: ["sh", "-c", f"echo '{json.dumps(figures)}'"]


class RunsTest(unittest.TestCase):
    def test_all_setups_are_tried_and_the_best_goes_on(self):
        peer = {"slow": printing(fast=[8, 9], short=3), "quick": printing(fast=[10, 12], short=2)}
        contest = Contest(manta=printing(fast=30, short=1), peers={"peer": peer}, metrics=[FAST, SHORT])
        runs = run.Runs(contest, Path())
        with contextlib.redirect_stdout(io.StringIO()):
            runs.run_in_turn("round 1")
            runs.run_in_turn("round 2")
        fast, short = runs.rows(SUITE, MEASURED)
        self.assertEqual((fast["manta"], fast["peer"], fast["samples"]), (30, 11, [2, 4]))
        self.assertEqual((short["peer"], short["peer_setup"]), (2, "quick"))
        self.assertEqual(fast["peer_setups"], {"slow": 8.5, "quick": 11})

    def test_a_contestant_without_a_figure_fails(self):
        contest = Contest(manta=printing(short=1), peers={}, metrics=[FAST])
        with self.assertRaisesRegex(run.Failed, "no positive value for fast"):
            run.Runs(contest, Path()).run_in_turn("round 1")


    def test_a_count_may_be_zero_and_then_has_no_ratio(self):
        failed = Metric("failed", "", "lower", "failures", counts=True, goal_value=1)
        suite = Suite("toy", "toys", [Contest(manta=printing(failed=0), peers={"peer": printing(failed=3)},
                                              metrics=[failed])])  # fmt: skip
        runs = run.Runs(suite.contests[0], Path())
        with contextlib.redirect_stdout(io.StringIO()):
            runs.run_in_turn("round 1")
        (row,) = runs.rows(suite, MEASURED)
        self.assertEqual((row["manta"], row["peer"], row["ratio"]), (0, 3, None))
        self.assertEqual(report.goals_of(failed, row), [("< 1", True)])
        self.assertIn("| 0 (0 to 0) | 3 (3 to 3) | peer |  | < 1 | yes |", report.markdown([suite], [row]))

    def test_a_contest_without_peers(self):
        contest = Contest(manta=printing(short=1), peers={}, metrics=[SHORT])
        runs = run.Runs(contest, Path())
        with contextlib.redirect_stdout(io.StringIO()):
            runs.run_in_turn("round 1")
        rows = runs.rows(Suite("toy", "toys", [contest]), MEASURED)
        self.assertEqual([(row["manta"], row["peer"], row["ratio"]) for row in rows], [(1, None, None)])
        self.assertIn("| short | s | 1 (1 to 1) |  |  |  |", report.markdown([Suite("toy", "toys", [contest])], rows))

    def test_peers_may_measure_something_else(self):
        half = Metric("half", "s", "lower", "half the time", figure="whole", peer_figure="part")
        contest = Contest(manta=printing(whole=4), peers={"peer": printing(whole=9, part=2)}, metrics=[half])
        runs = run.Runs(contest, Path())
        with contextlib.redirect_stdout(io.StringIO()):
            runs.run_in_turn("round 1")
        self.assertEqual(runs.rows(SUITE, MEASURED)[0]["peer"], 2)


class ResultsTest(unittest.TestCase):
    def test_medians_quartiles_and_ratios(self):
        fast, short = toy_rows()
        self.assertEqual((fast["manta"], fast["manta_quartiles"], fast["samples"]), (20, [15, 25], [3, 1]))
        self.assertEqual((fast["ratio"], short["ratio"]), (2, 5))
        self.assertEqual(fast["peer_quartiles"], [10, 10])

    def test_the_best_setup_counts_and_all_are_kept(self):
        tried = {"a": {"fast": [10], "short": [2]}, "b": {"fast": [8], "short": [3]}}
        fast, short = toy_rows({"peer": tried})
        self.assertEqual((fast["peer_setup"], short["peer_setup"]), ("a", "a"))
        self.assertEqual(fast["peer_setups"], {"a": 10, "b": 8})

    def test_goals_are_told_met_or_not(self):
        rows = toy_rows()
        self.assertEqual(report.goals_of(FAST, rows[0]), [("≥ 2 × peer", True)])
        self.assertEqual(report.goals_of(SHORT, {**rows[1], "manta": 0.6}), [("< 0.5 s", False)])
        missed = "\n".join(report.goals([SUITE], [rows[0], {**rows[1], "manta": 0.6}]))
        self.assertIn("1 of 2", missed)
        self.assertIn("`short`", missed)

    def test_saving_one_metric_keeps_all_others(self):
        rows = [row for row in json.loads((results.BENCH / "results.json").read_text()) if row["suite"] == "core"]
        with tempfile.TemporaryDirectory() as folder:
            results.save(Path(folder), rows)
            new = {**toy_rows()[0], "suite": "core", "name": rows[0]["name"]}
            results.save(Path(folder), [new])
            saved = json.loads((Path(folder) / "results.json").read_text())
        self.assertEqual(saved, [new, *rows[1:]])

    def test_rows_of_earlier_rules_are_marked(self):
        old = {key: value for key, value in toy_rows()[0].items() if key not in ("manta_quartiles", "peer_quartiles")}
        self.assertIn(report.EARLIER, report.cells(SUITE, [old])[1][0])
        self.assertNotIn(report.EARLIER, report.cells(SUITE, toy_rows())[1][0])

    def test_what_readme_tells_is_measured(self):
        names = [metric.name for suite in SUITES for metric in suite.metrics]
        self.assertEqual(len(names), len(set(names)))
        told = [name for _, metrics, *_ in (*readme.LINES, *readme.PLAIN) for name in metrics]
        self.assertEqual([name for name in told if name not in names], [])


if __name__ == "__main__":
    unittest.main()
