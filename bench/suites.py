"""What is measured. To add a suite, append a Suite to SUITES; run.py and report.py know nothing of any one of them."""

from commands import (BREAST_CANCER, loaded, on_hosts, on_slow_disk, program, ray_on_hosts, script, taxi, torch_script,
                      torchrun, with_trees)  # fmt: skip
from contest import Contest, Metric, Suite
from taxi_features import RAY_FORMS

RAY = "Ray 2.59.0"
RAY_ASYNC = "Ray 2.59.0, asynchronous upload"
RAY_DEFAULTS = "Ray 2.59.0, default settings"
RAY_HAPROXY = "Ray 2.59.0, HAProxy"
RAY_BATCH = "Ray 2.59.0, HAProxy and serve.batch"
XGBOOST = "xgboost 3.2.0, QuantileDMatrix"
XGBOOST_PREDICT = "xgboost 3.2.0"
XGBOOST_DMATRIX = "xgboost 3.2.0, DMatrix"
BARE_SERVE = "xgboost 3.2.0 behind Beast, 1 thread"
ARROW = "pyarrow 26.0.1, scan only"
ARROW_TENSORS = "pyarrow 26.0.1"
ARROW_MEMORY = "pyarrow 26.0.1, table in memory"
ARROW_COMPUTE = "pyarrow 26.0.1, compute functions"
SKLEARN = "scikit-learn, read by pyarrow"
NO_SHUFFLE = "Manta, no shuffle"
ONLY_READS = "Manta, only reading"
FEWER_ROWS = "Manta, 1.6 million rows"
DUCKDB = "DuckDB 1.5.6"
PANDAS = "pandas"
BARE = "libtorch 2.13.0 alone"
TWO_BARE = "libtorch 2.13.0 alone, twice"
TWO_IN_STEP = "libtorch 2.13.0 alone, twice, in step"
PYTORCH = "PyTorch 2.13.0 alone"
TORCHRUN = "PyTorch 2.13.0, torchrun and DDP"
TORCH_SAVE = "torch.save"
TORCH_ASYNC = "torch's async_save"
ONE_WORKER = "Manta, 1 worker"
FLAT_GLOO = "Gloo between all ranks"
TWO_COPIES = "memcpy twice, by each worker"
EACH_READS_ALL = "each host reads all"
NO_TRACKERS = "Manta, without trackers"
NO_FSYNC = "Manta, without fsync"


def call_rate(name, meaning):
    return Metric(name, "1/s", "higher", meaning, goal_ratio={RAY: 10})


CORE = Suite(
    name="core",
    about="Tasks, actors and objects on one machine, with 2 worker processes.",
    contests=[Contest(
        manta=program("core_bench"),
        peers={RAY: script("ray_core.py")},
        metrics=[
            Metric("first_task_cold_ms", "ms", "lower",
                   "start of the program until its first no-op task has its result"),
            Metric("first_task_warm_ms", "ms", "lower", goal_value=20,
                   meaning="the first no-op task, 3 s after the runtime was initialised. By then Ray has started a "
                   "worker for each CPU; Manta starts one for the task"),
            Metric("actor_start_ms", "ms", "lower",
                   "creation of an actor, a process of its own, until its first call's result"),
            call_rate("tasks_sync_per_s", "no-op tasks, each waited for before the next is submitted"),
            call_rate("tasks_async_per_s", "no-op tasks, 1,000 submitted and then all waited for, repeatedly"),
            call_rate("actor_calls_sync_per_s", "calls of one actor's no-op method, each waited for before the next"),
            call_rate("actor_calls_async_per_s", "calls of one actor's no-op method, 1,000 in flight as above"),
            Metric("get_100mb_table_us", "µs", "lower",
                   "getting a 100 MB Arrow table of float64 columns that a task has made, in the driver, and reading "
                   "one value; every table is got once"),
            Metric("idle_pss_mb", "MB", "lower", goal_value=70,
                   meaning="memory (PSS, in 10^6 bytes) of all processes, driver included, 3 s after the runtime is "
                   "initialised and before any task"),
        ],
    )],
)  # fmt: skip

SMALL = (200_000, 65_536)  # Trips, trips of a row group, files.
MIDDLE, BIG = (800_000, 131_072, 8), (6_400_000, 262_144, 8)
TRAIN, BARE_TRAIN = program("training_bench", "train"), program("training_bench", "bare")
B64, B4096 = ("--batch", 64), ("--batch", 4096)


def rows_per_s(name, peer, meaning, goal=None):
    """Of one peer of a contest, which may have others."""
    return Metric(name, "rows/s", "higher", meaning, figure="rows_per_s", peers=(peer,),
                  goal_ratio={} if goal is None else {peer: goal})  # fmt: skip


def ray_taxi(trips, batch):
    """Ray, with several counts of CPUs for reading beside the two workers, and with the rows in its object store: the
    best counts."""
    ways = {
        "1 CPU for data": ["--data-cpus", 1],
        "2 CPUs for data": ["--data-cpus", 2],
        "materialised": ["--data-cpus", 1, "--materialize"],
    }
    train = script("ray_train.py", "taxi")
    return {way: taxi(train, trips, *batch, "--workers", 2, *options) for way, options in ways.items()}


def checkpoint_peers(*slow):
    return {
        RAY: script("ray_train.py", "checkpoint", "--mode", "sync", *slow),
        RAY_ASYNC: script("ray_train.py", "checkpoint", "--mode", "async", *slow),
        TORCH_SAVE: script("torch_checkpoint.py", "save", *slow),
        TORCH_ASYNC: script("torch_checkpoint.py", "async", *slow),
    }


TRAINING = Suite(
    name="train",
    about="Training a small model on one machine (the taxi example: an MLP of 6-256-16-1 with BatchNorm, Adam, one "
    "thread for each worker), and what a training run costs beside the training. Rates are those of whole epochs after "
    "a first one, and count the rows of all workers. Manta and Ray read Parquet files: Manta in the first epoch, as it "
    "keeps the decoded rows of so small a data set, Ray in every epoch or, materialised, before the fit. libtorch and "
    "PyTorch alone have all tensors in memory. Python uses the fused Adam. All peers keep freed memory "
    "(glibc's M_TRIM_THRESHOLD), as tuned programs do; Manta runs as it is.",
    contests=[
        Contest(
            manta=program("training_bench", "fit"),
            peers={RAY: script("ray_train.py", "fit")},
            metrics=[
                Metric("empty_fit_2_workers_s", "s", "lower", goal_value=0.2,
                       meaning="TorchTrainer's fit() of a loop that sums one number over its process group and "
                       "reports it, 2 workers, not the program's first"),
                Metric("empty_fit_cold_s", "s", "lower", goal_value=1,
                       meaning="start of the program until its first such fit() has returned"),
            ],
        ),
        Contest(
            manta=taxi(TRAIN, SMALL, *B64),
            peers={
                BARE: taxi(BARE_TRAIN, SMALL, *B64),
                PYTORCH: taxi(torch_script("torch_taxi.py"), SMALL, *B64),
            },
            metrics=[
                rows_per_s("taxi_b64_1w_vs_bare", BARE, "taxi, batches of 64 rows, 1 worker", 0.92),
                rows_per_s("taxi_b64_1w_vs_pytorch", PYTORCH, "the same; peer: one process in Python"),
            ],
        ),
        Contest(
            manta=taxi(TRAIN, SMALL, *B64, "--workers", 2),
            peers={
                ONE_WORKER: taxi(TRAIN, SMALL, *B64),
                TWO_BARE: taxi(BARE_TRAIN, SMALL, *B64, "--workers", 2),
                TWO_IN_STEP: taxi(BARE_TRAIN, SMALL, *B64, "--workers", 2, "--in-step"),
            },
            metrics=[
                rows_per_s("taxi_b64_2w_vs_1w", ONE_WORKER, "taxi, batches of 64 rows, 2 workers", 1.5),
                rows_per_s("taxi_b64_2w_vs_2_bare", TWO_BARE,
                           "the same; peer: two independent loops at once, twice the rate of the slower, which is what "
                           "two cores can give where they are not equally fast", 0.92),
                rows_per_s("taxi_b64_2w_vs_2_in_step", TWO_IN_STEP,
                           "the same; peer: two loops that wait for each other after each step and exchange nothing: "
                           "the most that workers in step can reach where a core is slow for some milliseconds, now "
                           "one, now the other", 0.92),
            ],
            turns=3,
        ),
        Contest(
            manta=taxi(TRAIN, SMALL, *B64, "--workers", 2),
            peers={
                TORCHRUN: taxi(torchrun(2, "torch_taxi.py"), SMALL, *B64),
                RAY: ray_taxi(SMALL, B64),
            },
            metrics=[
                rows_per_s("taxi_b64_2w_vs_torchrun", TORCHRUN, "the same; peer: two processes in Python over Gloo"),
                rows_per_s("taxi_b64_2w_vs_ray", RAY, "the same"),
            ],
            rounds=1,
        ),
        Contest(
            manta=taxi(TRAIN, MIDDLE, *B4096),
            peers={
                BARE: taxi(BARE_TRAIN, MIDDLE, *B4096),
                PYTORCH: taxi(torch_script("torch_taxi.py"), MIDDLE, *B4096),
            },
            metrics=[
                rows_per_s("taxi_b4096_1w_vs_bare", BARE, "taxi, batches of 4,096 rows, 1 worker", 0.95),
                rows_per_s("taxi_b4096_1w_vs_pytorch", PYTORCH, "the same; peer: one process in Python"),
            ],
        ),
        Contest(
            manta=taxi(TRAIN, MIDDLE, *B4096, "--workers", 2),
            peers={
                RAY: ray_taxi(MIDDLE, B4096),
                TORCHRUN: taxi(torchrun(2, "torch_taxi.py"), MIDDLE, *B4096),
                TWO_BARE: taxi(BARE_TRAIN, MIDDLE, *B4096, "--workers", 2),
            },
            metrics=[
                rows_per_s("taxi_b4096_2w_vs_ray", RAY, "taxi, batches of 4,096 rows, 2 workers", 2),
                rows_per_s("taxi_b4096_2w_vs_torchrun", TORCHRUN, "the same; peer: two processes in Python over Gloo"),
                rows_per_s("taxi_b4096_2w_vs_2_bare", TWO_BARE, "the same; peer: two independent loops at once"),
            ],
        ),
        Contest(
            manta=taxi(program("training_bench", "kill"), SMALL),
            peers={RAY: taxi(script("ray_train.py", "kill"), SMALL, "--data-cpus", 1)},
            metrics=[Metric("recovery_s", "s", "lower", goal_value=0.2,
                            meaning="SIGKILL of one of two workers that train (taxi, batches of 1,024 rows, a "
                            "checkpoint after each epoch) until both have done a step again from the last checkpoint; "
                            "Ray with its default health checks")],
        ),
        Contest(
            manta=program("training_bench", "checkpoint"),
            peers=checkpoint_peers(),
            metrics=[
                Metric("checkpoint_1gib_hold_s", "s", "lower", figure="hold_s", goal_value=0.15,
                       meaning="how long saving a model of 1 GiB every 3 s holds the loop, second and later "
                       "checkpoints of a run (Ray: torch.save to a local disk, and report)"),
                Metric("checkpoint_1gib_first_hold_s", "s", "lower", "the same, a run's first checkpoint",
                       figure="first_hold_s"),
            ],
            rounds=2,
        ),
        Contest(
            manta=on_slow_disk(program("training_bench", "checkpoint-slow")),
            peers={name: on_slow_disk(peer) for name, peer in checkpoint_peers("--slow").items()},
            metrics=[
                Metric("checkpoint_slow_disk_hold_s", "s", "lower", figure="hold_s", goal_value=0.15,
                       meaning="the same where the storage takes 240 MB/s, so 4.5 s for each checkpoint (Ray's local "
                       "disk stays fast): the second to fifth checkpoint"),
                Metric("checkpoint_slow_disk_worst_hold_s", "s", "lower", "the longest of these",
                       figure="worst_hold_s"),
            ],
            rounds=1,
        ),
    ],
)  # fmt: skip



def grown(what, rows):
    """Whether the cost grows with the rows alone: rows a second of 2 or 4 times as many."""
    meaning = {"pass": "all columns, filtered, in batches", "fit": "StandardScaler's fit on three columns",
               "sort": "all columns, by the distance"}[what]  # fmt: skip
    bench = program("data_bench", what)
    return Contest(
        manta=taxi(bench, (rows, 262_144, 8)),
        peers={FEWER_ROWS: taxi(bench, (1_600_000, 262_144, 8))},
        metrics=[rows_per_s(f"{what}_{rows // 1_600_000}x_rows", FEWER_ROWS,
                            f"{meaning}: {rows / 1e6:.1f} million rows", 0.9)],
        rounds=2,
    )  # fmt: skip


DATA = Suite(
    name="data",
    about="Reading 6.4 million taxi trips from 8 Parquet files in the page cache, filtering them and computing "
    "features: rows a second of each pass after a first one.",
    contests=[
        Contest(
            manta=taxi(program("training_bench", "ingest"), BIG),
            peers={
                ARROW: taxi(script("plain_ingest.py", "scan"), BIG),
                ARROW_TENSORS: taxi(script("plain_ingest.py", "tensors"), BIG),
                PANDAS: taxi(script("plain_ingest.py", "pandas"), BIG),
                RAY: {
                    f"{cpus} CPUs, {RAY_FORMS[form]}":
                        taxi(script("ray_data.py", "ingest"), BIG, "--cpus", cpus, "--form", form)
                    for cpus, form in ((2, "columns"), (2, "array"), (2, "filter"), (3, "array"))
                },
            },
            metrics=[
                rows_per_s("ingest_vs_arrow_scan", ARROW,
                           "rows as float tensors in batches of 4,096, in one training worker; peer: pyarrow's scanner "
                           "with the same expressions pushed down, neither cut into batches nor made tensors", 0.77),
                rows_per_s("ingest_vs_pyarrow", ARROW_TENSORS, "the same; peer: that scan, and tensors made of it"),
                rows_per_s("ingest_vs_pandas", PANDAS, "the same; peer: one process, a row group at a time"),
                rows_per_s("ingest_vs_ray", RAY,
                           "the same; peer: a function on whole pyarrow blocks without a copy, and iter_torch_batches "
                           "in the driver", 8),
            ],
        ),
        Contest(
            manta=taxi(program("data_bench", "pass"), BIG, "--window-shuffle"),
            peers={NO_SHUFFLE: taxi(program("data_bench", "pass"), BIG)},
            metrics=[rows_per_s("window_shuffle_vs_none", NO_SHUFFLE,
                                "all columns in batches of 65,536, filtered, after a window_shuffle of 131,072 rows; "
                                "peer: the same pass without it", 1 / 1.5)],
        ),
        Contest(
            manta=taxi(program("data_bench", "floats"), BIG),
            peers={ARROW_MEMORY: taxi(torch_script("plain_floats.py"), BIG)},
            metrics=[Metric("floats_from_memory", "rows/s", "higher", figure="rows_per_s", goal_value=30e6,
                            meaning="six float columns of a materialised data set as tensors of 4,096 rows")],
        ),
        *(grown(what, rows) for what in ("pass", "fit", "sort") for rows in (3_200_000, 6_400_000)),
        Contest(
            manta=taxi(program("training_bench", "ingest-peak"), BIG),
            peers={RAY: taxi(script("ray_data.py", "ingest-peak"), BIG, "--cpus", 2, "--form", "array")},
            metrics=[Metric("ingest_peak_mb", "MB", "lower", goal_value=400,
                            meaning="memory (PSS, in 10^6 bytes) of all processes meanwhile at most, driver included")],
            rounds=2,
        ),
    ],
)  # fmt: skip

SHAPED = 1_600_000  # Trips: more than a data reader keeps decoded.
LARGE_GROUPS = "Manta, row groups of 262,144 rows"
NO_FUNCTION = "Manta, without map_batches"


def shape(name, workers, row_group, peer, goal, meaning, *options):
    """Rows a second of the taxi training loop on the same trips in another shape."""
    train = ("--workers", workers, *options)
    manta = (*train, "--map-batches") if peer == NO_FUNCTION else train
    metric = rows_per_s(f"{name}_{workers}w", peer, f"{meaning}, {workers} worker{'s' * (workers > 1)}", goal)
    return Contest(manta=taxi(TRAIN, (SHAPED, row_group), *manta), peers={peer: taxi(TRAIN, (SHAPED, 262_144), *train)},
                   metrics=[metric], rounds=1)  # fmt: skip


SHAPES = Suite(
    name="shapes",
    about="The taxi training loop on the same 1,600,000 trips, which are too many to be kept decoded, stored in small "
    "row groups or passed through a function. The peer is the same loop on row groups of 262,144 rows: what the shape "
    "costs.",
    contests=[
        contest
        for workers in (1, 2)
        for contest in (
            shape("taxi_groups_of_100", workers, 100, LARGE_GROUPS, 1 / 3, "row groups of 100 rows, batches of 64",
                  *B64),
            shape("taxi_groups_of_1000", workers, 1_000, LARGE_GROUPS, 1 / 3, "row groups of 1,000 rows, batches of 64",
                  *B64),
            shape("taxi_groups_of_100_b4096", workers, 100, LARGE_GROUPS, 1 / 3,
                  "row groups of 100 rows, batches of 4,096", *B4096),
            shape("taxi_map_batches_b32", workers, 262_144, NO_FUNCTION, 0.8,
                  "map_batches at its default of 4,096 rows, batches of 32", "--batch", 32),
        )
    ],
)  # fmt: skip


def tuned_by_ray(*arguments):
    """Ray Tune, with several numbers of trials at a time: the best counts."""
    return {f"{cpus} CPU a trial": script("ray_tune.py", *arguments, "--cpus", cpus) for cpus in (1, 0.5)}


TUNE = Suite(
    name="tune",
    about="Tuner::fit() with 2 CPUs, in a runtime that is up. Ray reuses its actors, and stores nothing while an "
    "experiment runs; Manta runs as it is: with an experiment that survives the driver, and checkpoints of the models.",
    contests=[
        Contest(
            manta=program("workflow_bench", "tune-empty", "--trials", 200),
            peers={
                RAY: tuned_by_ray("empty", "--trials", 200),
                RAY_DEFAULTS: script("ray_tune.py", "empty", "--trials", 10, "--defaults"),
            },
            metrics=[Metric("tune_empty_trials_per_s", "1/s", "higher", figure="trials_per_s",
                            goal_ratio={RAY_DEFAULTS: 300},
                            meaning="200 trials of a function that does nothing. With its default settings, Ray starts "
                            "an actor for each trial: 10 trials")],
            rounds=2,
        ),
        Contest(
            manta=program("workflow_bench", "tune-xgboost", BREAST_CANCER, "--trials", 8),
            peers={RAY: tuned_by_ray("xgboost", BREAST_CANCER, "--trials", 8)},
            metrics=[Metric("tune_xgboost_8_trials_s", "s", "lower", figure="fit_s", goal_value=1,
                            meaning="8 trials of XGBoost on the breast cancer table, 20 rounds, evaluated on train and "
                            "valid rows; Manta: of an XGBoostTrainer with one worker; Ray: of a function that calls "
                            "the library")],
            rounds=2,
        ),
        Contest(
            manta=program("workflow_bench", "tune-xgboost", BREAST_CANCER, "--trials", 50),
            peers={RAY: tuned_by_ray("xgboost", BREAST_CANCER, "--trials", 50)},
            metrics=[Metric("tune_xgboost_50_trials_per_s", "1/s", "higher", "50 such trials", figure="trials_per_s")],
            rounds=2,
        ),
    ],
)  # fmt: skip


def plain_trees(matrix):
    return taxi(script("plain_trees.py", "train"), BIG, "--matrix", matrix)


TREES = Suite(
    name="trees",
    about="XGBoost on 6.4 million taxi trips in 8 Parquet files in the page cache, with the filters and features of "
    "the taxi example: tree_method hist, max_depth 6, 20 rounds, evaluated on the rows that it trains on. Two workers "
    "with one thread each, or one process with two threads.",
    contests=[
        Contest(
            manta=taxi(program("workflow_bench", "train"), BIG),
            peers={
                XGBOOST: plain_trees("QuantileDMatrix"),
                XGBOOST_DMATRIX: plain_trees("DMatrix"),
                RAY: {f"{n} CPU{'s' * (n > 1)} for data": taxi(script("ray_trees.py", "train"), BIG, "--data-cpus", n)
                      for n in (1, 2)},
            },
            metrics=[
                Metric("xgboost_vs_plain_boosting", "s", "lower", figure="end_to_end_s", peer_figure="boosting_s",
                       peers=(XGBOOST, XGBOOST_DMATRIX), goal_ratio={XGBOOST_DMATRIX: 0.8},
                       meaning="file to model, against the boosting alone of a plain program in Python, which has read "
                       "and computed everything before. With a DMatrix, boosting includes finding the quantiles; a "
                       "QuantileDMatrix has them before. The goal is 1.25 times the time"),
                Metric("xgboost_vs_plain", "s", "lower", figure="end_to_end_s", peers=(XGBOOST, XGBOOST_DMATRIX),
                       meaning="file to model, against that program's time from file to model; pyarrow's scanner "
                       "reads, filters and computes"),
                Metric("xgboost_vs_ray", "s", "lower", figure="end_to_end_s", peers=(RAY,),
                       meaning="the same; peer: XGBoostTrainer, with pyarrow blocks and QuantileDMatrix"),
            ],
            rounds=2,
        ),
        Contest(
            manta=with_trees(program("workflow_bench", "predict"), BIG),
            peers={
                XGBOOST_PREDICT: with_trees(script("plain_trees.py", "predict"), BIG, "--model"),
                RAY: with_trees(script("ray_trees.py", "predict"), BIG, "--model"),
            },
            metrics=[
                rows_per_s("xgboost_predict_vs_plain", XGBOOST_PREDICT,
                           "BatchPredictor with such a model, file to predictions in the driver: each pass after a "
                           "first one; peer: pyarrow's scanner and inplace_predict with two threads"),
                rows_per_s("xgboost_predict_vs_ray", RAY,
                           "the same; peer: Ray Data's map_batches, one function in tasks that keep the model"),
            ],
            rounds=2,
        ),
    ],
)  # fmt: skip

SERVER, RAY_SERVER = program("workflow_bench", "serve"), script("ray_serve.py")


def connections(n, goal):
    return [
        Metric(f"serve_json_c{n}_per_s", "1/s", "higher", f"{n} connection{'s' * (n > 1)}: requests a second",
               figure=f"c{n}_per_s", goal_ratio=goal),
        Metric(f"serve_json_c{n}_p99_ms", "ms", "lower", "the time within which 99% of these requests are answered",
               figure=f"c{n}_p99_ms"),
    ]  # fmt: skip


SERVE = Suite(
    name="serve",
    about="The tuned XGBoost model of the breast cancer table (30 features, the StandardScaler before it) behind HTTP "
    "with 1 replica; wrk with one thread on the same 2 cores asks for one row as JSON. Every server gives the same "
    "answer.",
    contests=[
        Contest(
            manta=loaded(SERVER, "rates"),
            peers={
                BARE_SERVE: loaded(program("bare_serve"), "rates"),
                RAY: loaded(RAY_SERVER, "rates"),
                RAY_HAPROXY: loaded(script("ray_serve.py", "--haproxy"), "rates"),
                RAY_BATCH: loaded(script("ray_serve.py", "--haproxy", "--batch", 64), "rates"),
            },
            metrics=[
                *connections(1, {RAY: 40, BARE_SERVE: 0.6}),
                *connections(16, {RAY: 40}),
                *connections(256, {}),
            ],
            rounds=2,
        ),
        Contest(
            manta=loaded(SERVER, "kill", "--replica", "cancer"),
            peers={RAY: loaded(RAY_SERVER, "kill", "--replica", "ray::ServeReplica")},
            metrics=[
                Metric("serve_kill_failed", "requests", "lower", figure="failed", counts=True, goal_value=1,
                       meaning="requests that failed in 30 s of load with 16 connections, while the replica got a "
                       "SIGKILL every 200 ms"),
                Metric("serve_kill_answered_per_s", "1/s", "higher", figure="answered_per_s",
                       meaning="requests a second that were answered meanwhile"),
            ],
            rounds=1,
        ),
    ],
)  # fmt: skip



def preprocess_s(name, meaning, goal=None, **more):
    return Metric(name, "s", "lower", meaning, goal_ratio={} if goal is None else {RAY: goal}, **more)


PREPROCESS = Suite(
    name="preprocess",
    about="Preprocessors on 6.4 million taxi trips in 8 Parquet files in the page cache: from the files to what was "
    "learned, or to all rows in memory; each run after a first one.",
    contests=[
        Contest(
            manta=taxi(program("preprocess_bench"), BIG),
            peers={
                RAY: taxi(script("ray_preprocess.py"), BIG),
                ARROW_COMPUTE: taxi(script("plain_preprocess.py", "pyarrow"), BIG),
                SKLEARN: taxi(script("plain_preprocess.py", "sklearn"), BIG),
            },
            metrics=[
                preprocess_s("standard_fit_s", "StandardScaler's fit on three columns of float64", goal_value=0.1),
                preprocess_s("ordinal_fit_s", "OrdinalEncoder's fit on two columns of 4 and 265 integers; pyarrow: their "
                             "distinct values", 3),
                preprocess_s("one_hot_fit_s", "OneHotEncoder's fit on the same", 3),
                preprocess_s("one_hot_transform_s", "both columns as vectors in memory, fitted before", 8,
                             peers=(RAY, SKLEARN)),
                preprocess_s("standard_fit_transform_s", "StandardScaler's fit, and its three columns in memory"),
                Metric("row_us", "µs", "lower", peers=(RAY, SKLEARN),
                       meaning="transform_batch of one row by a chain of OneHotEncoder, StandardScaler and "
                       "Concatenator, as a served model calls it; peer: of a pandas DataFrame of one row"),
            ],
            rounds=2,
        ),
    ],
)  # fmt: skip


def wide(what, meaning):
    return Contest(
        manta=taxi(program("wide_bench", what), BIG),
        peers={
            DUCKDB: taxi(script("duckdb_wide.py", what), BIG),
            RAY: taxi(script("ray_wide.py", what, "--cpus", 2), BIG),
        },
        metrics=[Metric(f"{what}_s", "s", "lower", meaning, figure="seconds",
                        goal_ratio={RAY: 5, DUCKDB: 1 / 1.3})],
        rounds=2,
    )  # fmt: skip


def beside_reading(what):
    """How much longer it takes than the batches without it: no operation that makes all values takes less."""
    return Contest(
        manta=taxi(program("wide_bench", what), BIG),
        peers={ONLY_READS: taxi(program("wide_bench", "read"), BIG)},
        metrics=[Metric(f"{what}_vs_read_s", "s", "lower", figure="seconds",
                        meaning="the same; peer: the batches of all columns as they are in the files")],
    )  # fmt: skip


DATA_WIDE = Suite(
    name="data_wide",
    about="Operations on all of 6.4 million taxi trips in 8 Parquet files in the page cache: the time until the last row "
    "of the result was seen in this process, after a first pass.",
    contests=[
        wide("sort", "all columns, by the distance. Manta keeps equal rows in their order"),
        beside_reading("sort"),
        wide("random_shuffle", "all columns in a random order by a seed"),
        beside_reading("random_shuffle"),
        wide("groupby_mean", "the mean fare by the number of passengers. Manta's does not depend on the order of threads"),
        wide("join", "all columns with the mean fare of all trips that began in the same second. Manta gives them in the "
             "order of the trips"),
    ],
)  # fmt: skip


def allreduce(size, text, goal):
    """Two workers on each of two hosts; over shared memory on a host, or over Gloo only."""
    run = ("training_bench", "allreduce", "--workers", 4, "--bytes", size)
    return Contest(
        manta=on_hosts(2, program(*run)),
        peers={FLAT_GLOO: on_hosts(2, program(*run, "--backend", "gloo"))},
        metrics=[Metric(f"hosts_allreduce_{text}_s", "s", "lower", figure="allreduce_s", goal_ratio={FLAT_GLOO: goal},
                        meaning=f"the sum of {text} over 2 workers on each of 2 hosts: the median of its calls")],
    )  # fmt: skip


def reading(weight, text, goal):
    """A worker on each of two hosts goes through the rows, as the hosts choose, or with each host reading all of them."""
    run = ("hosts_bench", "reading", weight)
    return Contest(
        manta=on_hosts(2, program(*run, "auto")),
        peers={EACH_READS_ALL: on_hosts(2, program(*run, "never"))},
        metrics=[Metric(f"hosts_{weight}_rows_per_s", "1/s", "higher", figure="rows_per_s", goal_ratio={EACH_READS_ALL: goal},
                        meaning=f"1,600,000 rows of ten numbers from {text}, an epoch for a worker on each of 2 hosts")],
    )  # fmt: skip


def on_cluster(cluster="", prefix="", join_goal=1):
    """What a kind of cluster is asked to do quickly. The driver is on none of its three nodes."""
    def run(command):
        return on_hosts(4, command, "driver_cpus=0", cluster)

    by = f" by {cluster.capitalize()}" if cluster else ""
    seen = [
        ("see_killed_process_s", 0.1, "SIGKILL of an actor on another host until its caller has the error"),
        ("see_crashed_host_s", 0.5, "the same, if all processes of the other host are killed at once"),
        ("see_cut_host_s", 5, "the same, if the other host is cut off without a word"),
        ("see_cut-from_host_s", 5, "the same, if only what it sends to the driver is lost"),
        ("see_cut-to_host_s", 5, "the same, if only what the driver sends to it is lost"),
        ("empty_cut_host_s", 15, "from each of these three cuts until nothing of the run runs on that host any more"),
    ]
    recovery = [("crash", 2.5, "its host crashes"), ("cut", 7, "its host is cut off, both ways or from the driver only")]
    return [
        Contest(
            manta=run(program("hosts_bench", "join")),
            peers={},
            metrics=[
                Metric(f"{prefix}join_3_agents_s", "s", "lower", figure="join_3_agents_s", goal_value=join_goal,
                       meaning=f"from the driver's start of init until three agents, started on three hosts{by}, have joined"),
                Metric(f"{prefix}refuse_impossible_s", "s", "lower", figure="refuse_impossible_s", goal_value=1,
                       meaning="until a gang that these nodes cannot hold is refused"),
            ],
            rounds=3,
        ),
        Contest(
            manta=run(program("hosts_bench", "losses")),
            peers={},
            metrics=[Metric(prefix + name.replace("-", "_"), "s", "lower", meaning, figure=name, goal_value=goal)
                     for name, goal, meaning in seen],
            rounds=2,
        ),
        *(Contest(
            manta=run(taxi(program("training_bench", what), SMALL)),
            peers={},
            metrics=[Metric(f"{prefix or 'hosts_'}recovery_{what}_s", "s", "lower", figure="recovery_s", goal_value=goal,
                            meaning=f"`hosts_recovery_s`, if {how}")],
            rounds=2,
        ) for what, goal, how in recovery),
    ]  # fmt: skip


HOSTS = Suite(
    name="hosts",
    about="Several hosts: network namespaces of one machine, so all of them share 2 cores. Everything between Manta's "
    "hosts is encrypted (TLS 1.3), but for Gloo's and where it says so; nothing between Ray's.",
    contests=[
        Contest(
            manta=on_hosts(2, program("hosts_bench", "calls")),
            peers={RAY: ray_on_hosts(2, "ray_hosts.py")},
            metrics=[
                Metric("remote_tasks_sync_per_s", "1/s", "higher", goal_value=12_000,
                       meaning="no-op tasks on the other host, each waited for before the next is submitted"),
                Metric("remote_tasks_async_per_s", "1/s", "higher", goal_value=60_000,
                       meaning="no-op tasks on the other host, 1,000 submitted and then all waited for, repeatedly"),
                Metric("remote_object_gb_per_s", "GB/s", "higher", goal_value=0.6,
                       meaning="getting a table or array of 256 MB that a task on the other host has made, once, and "
                       "reading one value"),
            ],
        ),
        Contest(
            manta=on_hosts(2, program("hosts_bench", "objects"), "encrypt_objects=no"),
            peers={},
            metrics=[Metric("remote_object_plain_gb_per_s", "GB/s", "higher", figure="remote_object_gb_per_s",
                            goal_value=1,
                            meaning="`remote_object_gb_per_s` with `encrypt_objects=no`, and a checksum instead")],
        ),
        Contest(
            manta=on_hosts(2, taxi(program("training_bench", "kill"), SMALL)),
            peers={},
            metrics=[Metric("hosts_recovery_s", "s", "lower", figure="recovery_s", goal_value=2,
                            meaning="`recovery_s` with the worker that is killed on another host than the driver")],
        ),
        *on_cluster(),
        *on_cluster("slurm", "slurm_"),
        *on_cluster("ray", "ray_", join_goal=5),
        allreduce(1024, "1_KB", 5),
        allreduce(10_000_000, "10_MB", 1),
        reading("heavy", "CSV", 1.2),
        reading("light", "Parquet", 0.9),
        Contest(
            manta=program("stub_agents"),
            peers={},
            metrics=[
                Metric("join_1000_agents_s", "s", "lower", goal_value=1,
                       meaning="1,000 agents that begin to connect at once, until the driver has all of them"),
                Metric("gang_of_1000_s", "s", "lower", goal_value=0.2,
                       meaning="an actor group of 1,000 actors, one on each node, until the last agent has its order"),
                Metric("driver_of_1000_mb", "MB", "lower", "resident memory of the driver then", goal_value=300),
                Metric("idle_1000_agents_cpu_percent", "%", "lower", goal_value=5,
                       meaning="of one core, what the driver uses while nothing happens"),
            ],
        ),
    ],
)  # fmt: skip

LOOP = Suite(
    name="loop",
    about="What the functions that a training loop calls cost it.",
    contests=[
        Contest(
            manta=program("training_bench", "report", "--workers", 1),
            peers={},
            metrics=[Metric("report_us", "µs", "lower", goal_value=20,
                            meaning="report() without a checkpoint after each step of a millisecond's work, 1 worker, no "
                            "trackers: the median")],
        ),
        Contest(
            manta=program("training_bench", "report", "--workers", 1),
            peers={NO_TRACKERS: program("training_bench", "report", "--workers", 1)},
            metrics=[Metric("tracked_report_us", "µs", "lower", peer_figure="report_us",
                            meaning="the same, with trackers that write JSON, CSV and TensorBoard files")],
        ),
        Contest(
            manta=program("training_bench", "report", "--workers", 2),
            peers={NO_TRACKERS: program("training_bench", "report", "--workers", 2)},
            metrics=[Metric("tracked_steps_per_s", "1/s", "higher", peer_figure="steps_per_s",
                            goal_ratio={NO_TRACKERS: 0.98},
                            meaning="such steps with a report each, by 2 workers on 2 CPUs, with these trackers")],
        ),
        Contest(
            manta=program("training_bench", "commit", "--fsync"),
            peers={NO_FSYNC: program("training_bench", "commit")},
            metrics=[Metric("checkpoint_1gib_fsync_s", "s", "lower", figure="checkpoint_s", goal_ratio={NO_FSYNC: 1 / 1.05},
                            meaning="a checkpoint of 1 GiB from report() to its commit, one after the other, each on the "
                            "disk before it counts; peer: written by the system when it likes")],
        ),
        Contest(
            manta=program("training_bench", "allreduce", "--workers", 2, "--bytes", 100_000_000),
            peers={TWO_COPIES: program("training_bench", "allreduce", "--workers", 2, "--bytes", 100_000_000)},
            metrics=[Metric("allreduce_100_MB_s", "s", "lower", figure="allreduce_s", peer_figure="two_copies_s",
                            goal_ratio={TWO_COPIES: 1 / 1.2},
                            meaning="the sum of 100 MB over 2 workers of one host; peer: as many bytes copied there and "
                            "back by each, at the same time")],
        ),
    ],
)  # fmt: skip

SUITES = [CORE, TRAINING, LOOP, SHAPES, DATA, DATA_WIDE, PREPROCESS, TUNE, TREES, SERVE, HOSTS]
