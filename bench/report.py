"""Tables made from the rows of results.json: plain ones for the terminal, and RESULTS.md."""

EARLIER = "†"  # Marks a row of earlier rules.


def number(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def goals_of(metric, row):
    """[(the goal in words, whether it is met)]."""
    goals = []
    if row["peer_name"] in metric.goal_ratio:
        wanted = metric.goal_ratio[row["peer_name"]]
        goals.append((f"≥ {wanted:.3g} × {row['peer_name']}", row["ratio"] >= wanted))
    if metric.goal_value is not None:
        higher = metric.better == "higher"
        met = row["manta"] >= metric.goal_value if higher else row["manta"] < metric.goal_value
        goals.append((f"{'≥' if higher else '<'} {metric.goal_value:g} {metric.unit}".rstrip(), met))
    return goals


def spread(row, who):
    if not row.get(f"{who}_quartiles"):
        return number(row[who])
    return f"{number(row[who])} ({' to '.join(map(number, row[f'{who}_quartiles']))})"


def cells(suite, rows):
    """One list of strings per row, in the order of the suite's metrics, with a title row."""
    table = [["metric", "unit", "Manta", "peer", "peer is", "times better", "goal", "met"]]
    for metric in suite.metrics:
        told = set()  # Manta's own goal is told once, whatever the number of peers.
        for row in rows:
            if (row["suite"], row["name"]) != (suite.name, metric.name):
                continue
            goals = [goal for goal in goals_of(metric, row) if goal not in told]
            told |= set(goals)
            name = metric.name + ("" if "manta_quartiles" in row else f" {EARLIER}")
            figures = [spread(row, "manta"), spread(row, "peer"), row["peer_name"] or "", number(row["ratio"])]
            table.append([name, metric.unit, *figures, ", ".join(text for text, _ in goals),
                          ", ".join("yes" if met else "**no**" for _, met in goals)])  # fmt: skip
    return table


def plain_table(suite, rows):
    table = cells(suite, rows)
    widths = [max(map(len, column)) for column in zip(*table)]
    return "\n".join("  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in table).replace("**", "")


def how_measured(row):
    """Where, when and with what, in words."""
    measured = row["measured"]
    if isinstance(measured, str):  # Of earlier rules.
        return f"{EARLIER} {measured}"
    versions = ", ".join(f"{name} {version}" for name, version in measured["versions"].items())
    return (
        f"{measured['date']}; {measured['machine']}; load {measured['load'][0]:g} at the start, at most "
        f"{measured['load'][1]:g}; {measured['build']}; {versions}"
    )


def how_often(rows):
    """{how often: [metric, ...]} in words."""
    result = {}
    for row in rows:
        if "samples" in row:
            measured = row["measured"]
            rounds = f"{measured['rounds']} round{'s' * (measured['rounds'] > 1)}"
            turns = f" of {measured['turns']} turns" * (measured["turns"] > 1)
            own, other = row["samples"]
            of_peer = f", {other} of the peer" if other else ""
            result.setdefault(f"{rounds}{turns}, {own} values of Manta{of_peer}", []).append(row)
    return [f"{often}: {', '.join(dict.fromkeys(r['name'] for r in group))}" for often, group in result.items()]


def goals(suites, rows):
    """How many goals are met, and which are not, with what was measured."""
    wanted = [line for suite in suites for line in cells(suite, rows)[1:] if line[6]]
    missed = [line for line in wanted if "no" in line[7]]
    lines = ["", "## Goals", "", f"{len(wanted) - len(missed)} of {len(wanted)} goals are met. Not met:"]
    if not missed:
        lines[-1] = f"All {len(wanted)} goals are met."
    return lines + [f"- `{name}`: {manta} {unit}, {f'{times} times {peer}; ' if times else ''}goal {goal}"
                    for name, unit, manta, _, peer, times, goal, _ in missed]  # fmt: skip


def markdown(suites, rows):
    lines = [
        "# Benchmark results",
        "",
        "Written by `bench/run.py` from `bench/results.json`; do not edit. Figures are medians, with the quartiles in",
        'brackets. The contestants that are compared ran in turn on the same machine. "times better" is Manta over the',
        "peer where higher is better, else the peer over Manta.",
    ]
    if any("manta_quartiles" not in row for row in rows):
        lines += [
            "",
            f"Rows marked {EARLIER} were measured before the rules below: some of them meant something else then "
            "(Ray Data with pandas batches, Ray",
            "and Manta without a process group in `recovery_s` and `empty_fit`, `get` of a table that had been got "
            "before, no tuned memory in",
            "libtorch alone). The next run replaces them.",
        ]
    lines += goals(suites, rows)
    for suite in suites:
        of_suite = [row for row in rows if row["suite"] == suite.name]
        if not of_suite:
            continue
        title, *body = cells(suite, rows)
        lines += ["", f"## {suite.name}", "", suite.about, "", "Measured:", ""]
        lines += [f"- {how}" for how in dict.fromkeys(map(how_measured, of_suite))]
        lines += [f"- {how}" for how in how_often(of_suite)]
        lines += [""] + ["| " + " | ".join(line) + " |" for line in [title, ["---"] * len(title), *body]]
        lines += ["", *(f"- `{m.name}`: {m.meaning} ({m.better} is better)" for m in suite.metrics)]
        for row in of_suite:
            if "peer_setups" in row:
                tried = ", ".join(f"{name}: {number(value)}" for name, value in row["peer_setups"].items())
                lines.append(f"- `{row['name']}`, setups of {row['peer_name']} that were tried: {tried}. "
                             f"Counted: {row['peer_setup']}.")  # fmt: skip
    return "\n".join(lines) + "\n"
