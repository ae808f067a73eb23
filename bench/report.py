"""Tables made from the rows of results.json: plain ones for the terminal, and RESULTS.md."""

import os
import platform
from datetime import date


def measured_now(rounds):
    """Where, when and how rows are measured that are measured now: each row carries it, as suites run at different
    times and perhaps on different machines."""
    cpus = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{date.today()}, median of {rounds} round{'s' * (rounds != 1)}; {cpus[0] if cpus else platform.machine()}, "
        f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}"
    )


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def goal_of(metric, row):
    """The goal in words, and whether it is met: ("", "") if there is none."""
    goals = []
    if row["peer_name"] in metric.goal_ratio:
        wanted = metric.goal_ratio[row["peer_name"]]
        goals.append((f"≥ {wanted:g} × {row['peer_name']}", row["ratio"] >= wanted))
    if metric.goal_value is not None:
        higher = metric.better == "higher"
        met = row["manta"] >= metric.goal_value if higher else row["manta"] < metric.goal_value
        goals.append((f"{'≥' if higher else '<'} {metric.goal_value:g} {metric.unit}", met))
    return ", ".join(text for text, _ in goals), ", ".join("yes" if met else "**no**" for _, met in goals)


def cells(suite, rows):
    """One list of strings per row, in the order of the suite's metrics, with a title row."""
    table = [["metric", "unit", "Manta", "peer", "peer is", "times better", "goal", "met"]]
    for metric in suite.metrics:
        for row in rows:
            if (row["suite"], row["name"]) == (suite.name, metric.name):
                figures = [number(row["manta"]), number(row["peer"]), row["peer_name"], number(row["ratio"])]
                table.append([metric.name, metric.unit, *figures, *goal_of(metric, row)])
    return table


def plain_table(suite, rows):
    table = cells(suite, rows)
    widths = [max(map(len, column)) for column in zip(*table)]
    return "\n".join("  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in table).replace("**", "")


def markdown(suites, rows):
    lines = [
        "# Benchmark results",
        "",
        "Written by `bench/run.py` from `bench/results.json`; do not edit. The contestants of a suite ran in turn on",
        "the same machine. \"times better\" is Manta over the peer where higher is better, else the peer over Manta.",
    ]
    for suite in suites:
        measured = sorted({row["measured"] for row in rows if row["suite"] == suite.name})
        if not measured:
            continue
        title, *body = cells(suite, rows)
        lines += ["", f"## {suite.name}", "", suite.about, "", f"Measured {'; '.join(measured)}.", ""]
        lines += ["| " + " | ".join(line) + " |" for line in [title, ["---"] * len(title), *body]]
        lines += ["", *(f"- `{m.name}`: {m.meaning} ({m.better} is better)" for m in suite.metrics)]
    return "\n".join(lines) + "\n"
