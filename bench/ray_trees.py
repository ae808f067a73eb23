"""Measures XGBoost under Ray on taxi trips: the peer of workflow_bench.

    ray_trees.py train <path> --data-cpus D      {"end_to_end_s": ...}: fit() of an XGBoostTrainer with two workers,
                                                 file to model
    ray_trees.py predict <path> --model <file>   {"rows_per_s": [...]}, file to predictions in the driver

Run it with the python that setup_ray.sh prints.
"""

import argparse
import json
import tempfile
import time

from ray_cluster import cluster, load_taxi, say
from taxi_boosting import ROUNDS, boost, booster_of
from taxi_features import COLUMNS, FEATURES, LABEL, arrays_of

PASSES = 3  # The first warms up.


def loop():
    """Trees need all rows at once: those of this worker, as a pyarrow table without a copy."""
    import time

    import pyarrow
    from ray import train
    from ray.train.xgboost import RayTrainReportCallback

    start = time.monotonic()
    shard = train.get_dataset_shard("train")
    rows = pyarrow.concat_tables(shard.iter_batches(batch_size=None, batch_format="pyarrow"))
    read = time.monotonic() - start
    # Metrics are reported after each round, the model is stored once, at the end.
    report = RayTrainReportCallback(frequency=0, checkpoint_at_end=True)
    _, building, boosting = boost(rows.select(FEATURES), rows[LABEL], 1, callbacks=[report])
    say(f"{rows.num_rows} rows: reading {read:.2f} s, matrix {building:.2f} s, boosting {boosting:.2f} s")


def train(args, folder):
    from ray.train import RunConfig, ScalingConfig
    from ray.train.xgboost import RayTrainReportCallback, XGBoostTrainer

    start = time.monotonic()
    result = XGBoostTrainer(
        loop,
        datasets={"train": load_taxi(args.path, "columns")},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
        run_config=RunConfig(storage_path=folder, name="run"),
    ).fit()
    elapsed = time.monotonic() - start
    rounds = RayTrainReportCallback.get_model(result.checkpoint).num_boosted_rounds()
    assert rounds == ROUNDS, rounds
    return {"end_to_end_s": elapsed}


def predict_trips(trips, model):
    features = arrays_of(trips)["features"]
    return {"probability": booster_of(model).inplace_predict(features, validate_features=False)}


def predict(args, folder):
    """Tasks whose processes keep the model. Actors, which every execution starts anew, took 2.5 times as long."""
    import ray

    ray.data.DataContext.get_current().enable_progress_bars = False
    rates = []
    for _ in range(PASSES):
        start, rows, total = time.monotonic(), 0, 0.0
        blocks = {"batch_format": "pyarrow", "batch_size": None, "zero_copy_batch": True}
        trips = ray.data.read_parquet(args.path, columns=COLUMNS)
        predictions = trips.map_batches(predict_trips, fn_kwargs={"model": args.model}, **blocks)
        for batch in predictions.iter_batches(batch_size=None, batch_format="numpy"):
            rows += len(batch["probability"])
            total += float(batch["probability"].sum())
        rates.append(rows / (time.monotonic() - start))
        say(f"{rows} rows, mean {total / rows:.5f}")
    return {"rows_per_s": rates[1:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "predict"])
    parser.add_argument("path")
    parser.add_argument("--data-cpus", type=int, default=1, help="told to Ray beside those of two workers")
    parser.add_argument("--model")
    parser.add_argument("--start-ns", type=int, help="not needed here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ray-bench-") as folder, cluster(2 + args.data_cpus):
        figures = {"train": train, "predict": predict}[args.what](args, folder)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
