"""results.json: a list of rows, one for each metric and peer (null where there is none), and what becomes of it when something is measured anew.

    {"suite", "name", "unit", "better", "peer_name", "manta", "peer", "ratio",      medians, how much better Manta is
     "manta_quartiles": [q1, q3], "peer_quartiles": [q1, q3], "samples": [n, n],    the spread of all values
     "peer_setups": {how it was set up: median}, "peer_setup": the one that counts, if there were several
     "measured": {...}}                                                             see machine.py

Rows without quartiles were measured before there were any, by the rules of that time.
"""

import json
import statistics
from pathlib import Path

import report
from suites import SUITES

BENCH = Path(__file__).resolve().parent


def digits(value):
    return float(f"{value:.5g}")  # More would be noise, and noise in diffs.


def quartiles(values):
    if len(values) == 1:
        return [digits(values[0])] * 2
    q1, _, q3 = statistics.quantiles(values, n=4, method="inclusive")
    return [digits(q1), digits(q3)]


def best_setup(metric, setups):
    """The name among {name: [value, ...]} whose median is best."""
    best = max if metric.better == "higher" else min
    return best(setups, key=lambda name: statistics.median(setups[name]))


def rows_of(suite, contest, values, setups, measured):
    """The rows of a contest. `values`: {contestant: {metric: [value, ...]}}, `setups`: {peer: {setup: the same}}."""
    rows = []
    for metric in contest.metrics:
        own = values["manta"][metric.name]
        for peer in contest.peers or [None]:
            if peer and metric not in contest.measured_by(peer):
                continue
            others = values[peer][metric.name] if peer else []
            manta_median, peer_median = statistics.median(own), statistics.median(others) if others else None
            ratio = metric.ratio(manta_median, peer_median)
            row = {
                "suite": suite.name,
                "name": metric.name,
                "unit": metric.unit,
                "better": metric.better,
                "peer_name": peer,
                "manta": digits(manta_median),
                "peer": digits(peer_median) if others else None,
                "ratio": None if ratio is None else digits(ratio),
                "manta_quartiles": quartiles(own),
                "peer_quartiles": quartiles(others) if others else None,
                "samples": [len(own), len(others)],
            }
            if tried := setups.get(peer):
                first = contest.measured_by(peer)[0]  # The choice is one for all metrics.
                row["peer_setup"] = best_setup(first, {name: v[first.name] for name, v in tried.items()})
                row["peer_setups"] = {name: digits(statistics.median(v[metric.name])) for name, v in tried.items()}
            rows.append({**row, "measured": measured})
    return rows


def save(folder, rows):
    """Replaces the rows of the metrics that `rows` have, keeps all others, and writes RESULTS.md anew."""
    path = folder / "results.json"
    new = {(row["suite"], row["name"]) for row in rows}
    old = json.loads(path.read_text()) if path.exists() else []
    both = [row for row in old if (row["suite"], row["name"]) not in new] + rows
    order = [(suite.name, metric.name) for suite in SUITES for metric in suite.metrics]
    both = [row for key in order for row in both if (row["suite"], row["name"]) == key]
    path.write_text(json.dumps(both, indent=2, ensure_ascii=False) + "\n")
    (folder / "RESULTS.md").write_text(report.markdown(SUITES, both))
