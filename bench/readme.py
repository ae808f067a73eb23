"""README's table, made from results.json: between two comments in README.md."""

import json

import report
from results import BENCH
from suites import (ARROW_COMPUTE, BARE_SERVE, DUCKDB, RAY, RAY_ASYNC, RAY_BATCH, RAY_HAPROXY, SKLEARN, SUITES, XGBOOST,
                    XGBOOST_DMATRIX)  # fmt: skip

README = BENCH.parent / "README.md"
BEGIN, END = "<!-- figures: written by bench/run.py -->\n", "<!-- end of figures -->\n"

# What is told: (words, [metric], peer, unit). Several metrics share a line.
LINES = [
    ("from program start to the first task's result", ["first_task_cold_ms"], RAY, "ms"),
    ("first task of a warm runtime", ["first_task_warm_ms"], RAY, "ms"),
    ("tasks per second, one by one / 1,000 in flight", ["tasks_sync_per_s", "tasks_async_per_s"], RAY, ""),
    ("actor calls per second, one by one / 1,000 in flight", ["actor_calls_sync_per_s", "actor_calls_async_per_s"], RAY,
     ""),
    ("get of a 100 MB Arrow table", ["get_100mb_table_us"], RAY, "us"),
    ("tasks on another host per second, one by one / 1,000 in flight (ours encrypted)",
     ["remote_tasks_sync_per_s", "remote_tasks_async_per_s"], RAY, ""),
    ("256 MB from another host (ours encrypted)", ["remote_object_gb_per_s"], RAY, "GB/s"),
    ("`fit()` of an empty loop on 2 workers, runtime warm", ["empty_fit_2_workers_s"], RAY, "s"),
    ("taxi training, batches of 64 rows, 2 workers", ["taxi_b64_2w_vs_ray"], RAY, "rows/s"),
    ("taxi training, batches of 4,096 rows, 2 workers", ["taxi_b4096_2w_vs_ray"], RAY, "rows/s"),
    ("6.4 million taxi trips from Parquet to tensors", ["ingest_vs_ray"], RAY, "rows/s"),
    ("sort / random shuffle of these trips, all columns", ["sort_s", "random_shuffle_s"], RAY, "s"),
    ("their groupby-mean / join", ["groupby_mean_s", "join_s"], RAY, "s"),
    ("StandardScaler / OrdinalEncoder / OneHotEncoder fitted on them",
     ["standard_fit_s", "ordinal_fit_s", "one_hot_fit_s"], RAY, "s"),
    ("OneHotEncoder's transform of two columns of them", ["one_hot_transform_s"], RAY, "s"),
    ("a worker is killed, until training goes on", ["recovery_s"], RAY, "s"),
    ("a 1 GiB checkpoint holds the loop for (second and later)", ["checkpoint_1gib_hold_s"], RAY_ASYNC, "s"),
    ("the same on a disk of 240 MB/s", ["checkpoint_slow_disk_hold_s"], RAY_ASYNC, "s"),
    ("XGBoost on 6.4 million taxi trips, 20 rounds, 2 workers", ["xgboost_vs_ray"], RAY, "s"),
    ("batch prediction of these trips", ["xgboost_predict_vs_ray"], RAY, "rows/s"),
    ("trials of an empty function per second", ["tune_empty_trials_per_s"], RAY, ""),
    ("8 trials of XGBoost on a small table", ["tune_xgboost_8_trials_s"], RAY, "s"),
    ("requests per second, XGBoost as JSON, 1 connection", ["serve_json_c1_per_s"], RAY_HAPROXY, ""),
    ("the same, 16 / 256 connections", ["serve_json_c16_per_s", "serve_json_c256_per_s"], RAY_BATCH, ""),
    ("memory of an idle run", ["idle_pss_mb"], RAY, "MB"),
]  # fmt: skip
# Where people would do without a framework: (words, [metric], peer if a metric has several).
PLAIN = [
    ("one worker against libtorch alone on tensors in memory, batches of 64 / 4,096 rows",
     ["taxi_b64_1w_vs_bare", "taxi_b4096_1w_vs_bare"]),
    ("two workers against one, batches of 64 rows", ["taxi_b64_2w_vs_1w"]),
    ("two workers against two independent loops of libtorch, batches of 64 / 4,096 rows",
     ["taxi_b64_2w_vs_2_bare", "taxi_b4096_2w_vs_2_bare"]),
    ("two workers against torchrun with DDP in Python, batches of 64 / 4,096 rows",
     ["taxi_b64_2w_vs_torchrun", "taxi_b4096_2w_vs_torchrun"]),
    ("reading against pyarrow's scanner / pyarrow to tensors / pandas",
     ["ingest_vs_arrow_scan", "ingest_vs_pyarrow", "ingest_vs_pandas"]),
    ("StandardScaler fitted from files against pyarrow's compute functions", ["standard_fit_s"], ARROW_COMPUTE),
    ("the same / OneHotEncoder's fit against scikit-learn", ["standard_fit_s", "one_hot_fit_s"], SKLEARN),
    ("sort / random shuffle / groupby-mean / join against DuckDB itself",
     ["sort_s", "random_shuffle_s", "groupby_mean_s", "join_s"], DUCKDB),
    ("a pass with a window shuffle against one without", ["window_shuffle_vs_none"]),
    ("XGBoost from file to model against the boosting alone of a plain program", ["xgboost_vs_plain_boosting"],
     XGBOOST_DMATRIX),
    ("the same against that program from file to model", ["xgboost_vs_plain"], XGBOOST),
    ("serving against the bare library behind Beast in one thread, 1 / 16 / 256 connections",
     ["serve_json_c1_per_s", "serve_json_c16_per_s", "serve_json_c256_per_s"], BARE_SERVE),
]  # fmt: skip


def rounded(value):
    return report.number(float(f"{value:.3g}"))


def table(rows):
    """Only what has been measured."""
    by_name = {(row["name"], row["peer_name"]): row for row in rows}
    by_metric = {row["name"]: row for row in rows}
    lines = [f"| medians on machines with 2 cores, which [bench/RESULTS.md](bench/RESULTS.md) names | Manta | {RAY} |", "|---|---|---|"]
    for words, metrics, peer, unit in LINES:
        found = [by_name[name, peer] for name in metrics if (name, peer) in by_name]
        if len(found) < len(metrics):
            continue
        mark = "" if all("samples" in row for row in found) else f" {report.EARLIER}"
        form = f" ({peer.removeprefix(f'{RAY}, ')})" if peer != RAY else ""
        figures = [" / ".join(rounded(row[who]) for row in found) + f" {unit}".rstrip() for who in ("manta", "peer")]
        lines.append(f"| {words}{mark} | {figures[0]} | {figures[1]}{form} |")
    lines += ["", "| times as fast as the plain libraries | |", "|---|---|"]
    for words, metrics, *peer in PLAIN:
        found = [row for name in metrics if (row := by_name.get((name, *peer)) if peer else by_metric.get(name))]
        if len(found) < len(metrics):
            continue
        mark = "" if all("samples" in row for row in found) else f" {report.EARLIER}"
        lines.append(f"| {words}{mark} | {' / '.join(report.number(row['ratio']) for row in found)} |")
    if any("samples" not in row for row in rows):
        lines += ["", f"{report.EARLIER} measured by earlier rules, see there."]
    return "\n".join(lines) + "\n"


def write_tables(check=False):
    """RESULTS.md and README's table from results.json. With `check`: only tells, by 1, whether they differ."""
    rows = json.loads((BENCH / "results.json").read_text())
    text = README.read_text()
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    wanted = {README: head + BEGIN + "\n" + table(rows) + "\n" + END + tail,
              BENCH / "RESULTS.md": report.markdown(SUITES, rows)}  # fmt: skip
    different = [path for path, content in wanted.items() if path.read_text() != content]
    if not check:
        for path in different:
            path.write_text(wanted[path])
    for path in different if check else []:
        print(f"{path.name} is not what results.json says: run bench/run.py --tables")
    return 1 if check and different else 0
