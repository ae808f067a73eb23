"""Measures Ray Tune on one local cluster: the peer of workflow_bench.

    ray_tune.py empty --trials N             {"trials_per_s": ...}, of a function that does nothing
    ray_tune.py xgboost <table> --trials N   {"fit_s": ..., "trials_per_s": ...}, of an XGBoost fit on a CSV file

  --cpus C      that a trial asks for, of 2
  --defaults    Ray's: an actor for each trial, three loggers

Otherwise actors are reused, and nothing is stored while the experiment runs: no logs, no checkpoint, no state of the
experiment. Run it with the python that setup_ray.sh prints.
"""

import argparse
import json
import os
import tempfile
import time

from ray_cluster import cluster, say


def empty(config):
    return {"value": config["x"]}


def read_table(path):
    """Train and valid rows, 80% and 20%, ready for XGBoost."""
    import pyarrow.csv

    table = pyarrow.csv.read_csv(path).to_pandas().astype("float32").sample(frac=1, random_state=1)
    rows, label = table.drop(columns="target").to_numpy(), table["target"].to_numpy()
    cut = len(table) * 8 // 10
    return (rows[:cut], label[:cut]), (rows[cut:], label[cut:])


def boost(config, tables):
    """With the library alone: a Ray Train run within each trial would take seconds."""
    import xgboost

    train, valid = (xgboost.DMatrix(*table, nthread=1) for table in tables)
    history = {}
    params = {"objective": "binary:logistic", "eval_metric": ["logloss", "error"], "nthread": 1, **config}
    evals = [(train, "train"), (valid, "valid")]
    xgboost.train(params, train, 20, evals=evals, evals_result=history, verbose_eval=False)
    return {f"{name}-{metric}": values[-1] for name, of in history.items() for metric, values in of.items()}


def fit(trainable, space, metric, folder, args):
    """Seconds."""
    from ray import tune

    tuner = tune.Tuner(
        tune.with_resources(trainable, {"cpu": args.cpus}),
        param_space=space,
        tune_config=tune.TuneConfig(num_samples=args.trials, metric=metric, mode="min",
                                    reuse_actors=not args.defaults),
        run_config=tune.RunConfig(storage_path=folder, name="run", verbose=0),
    )  # fmt: skip
    start = time.monotonic()
    results = tuner.fit()
    elapsed = time.monotonic() - start
    assert len(results) == args.trials and results.num_errors == 0, results.errors
    say(f"{args.trials} trials in {elapsed:.2f} s, best: {results.get_best_result().metrics[metric]:.3g}")
    return elapsed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["empty", "xgboost"])
    parser.add_argument("table", nargs="?")
    parser.add_argument("--trials", type=int, required=True)
    parser.add_argument("--cpus", type=float, default=1)
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--start-ns", type=int, help="not needed here")
    args = parser.parse_args()
    if not args.defaults:
        os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
        os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = "3600"
    with tempfile.TemporaryDirectory(prefix="ray-bench-") as folder, cluster():
        from ray import tune

        if args.what == "empty":
            elapsed = fit(empty, {"x": tune.uniform(0, 1)}, "value", folder, args)
        else:
            space = {"max_depth": tune.randint(1, 9), "eta": tune.loguniform(1e-4, 1e-1)}
            trainable = tune.with_parameters(boost, tables=read_table(args.table))
            elapsed = fit(trainable, space, "train-logloss", folder, args)
    print(json.dumps({"fit_s": elapsed, "trials_per_s": args.trials / elapsed}))


if __name__ == "__main__":
    main()
