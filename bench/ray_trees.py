"""Measures XGBoost under Ray on taxi trips: the peer of workflow_bench.

    ray_trees.py train <path> --data-cpus D                       {"end_to_end_s": ...}: fit() of an XGBoostTrainer with
                                                                  two workers, file to model
    ray_trees.py predict <path> --model <file> --form FORM        {"rows_per_s": [...]}, file to predictions in the
                                                                  driver, in one of PREDICT_FORMS

Run it with the python that setup_ray.sh prints.
"""

import argparse
import json
import tempfile
import time

from ray_cluster import cluster, load_taxi, say
from taxi_boosting import PREDICT_FORMS, ROUNDS, boost, booster_of
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


def predictions_of(features, model):
    return {"probability": booster_of(model).inplace_predict(features, validate_features=False)}


def predict_trips(trips, model):
    return predictions_of(arrays_of(trips)["features"], model)


class TripsPredictor:
    def __init__(self, model):
        self.model = model

    def __call__(self, trips):
        return predict_trips(trips, self.model)


class FeaturesPredictor(TripsPredictor):
    def __call__(self, batch):
        return predictions_of(batch["features"], self.model)


def predictions(path, model, form):
    """A lazy data set."""
    import ray

    blocks = {"batch_size": None, "zero_copy_batch": True}
    actors = {"fn_constructor_args": (model,), "compute": ray.data.ActorPoolStrategy(size=2), **blocks}
    if form == "apart":
        trips = load_taxi(path, "array")
        return trips.map_batches(FeaturesPredictor, batch_format="numpy", num_cpus=0.5, **actors)
    trips = ray.data.read_parquet(path, columns=COLUMNS)
    if form == "actors":
        return trips.map_batches(TripsPredictor, batch_format="pyarrow", num_cpus=1, **actors)
    return trips.map_batches(predict_trips, fn_kwargs={"model": model}, batch_format="pyarrow", **blocks)


def predict(args, folder):
    import ray

    ray.data.DataContext.get_current().enable_progress_bars = False
    rates = []
    for _ in range(PASSES):
        start, rows, total = time.monotonic(), 0, 0.0
        for batch in predictions(args.path, args.model, args.form).iter_batches(batch_size=None, batch_format="numpy"):
            rows += len(batch["probability"])
            total += float(batch["probability"].sum())
        rates.append(rows / (time.monotonic() - start))
        say(f"{rows} rows, mean {total / rows:.5f}")
    return {"rows_per_s": rates[1:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "predict"])
    parser.add_argument("path")
    parser.add_argument("--data-cpus", type=int, default=1, help="told to Ray beside those of two workers or actors")
    parser.add_argument("--model")
    parser.add_argument("--form", choices=PREDICT_FORMS, default="tasks")
    parser.add_argument("--start-ns", type=int, help="not needed here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ray-bench-") as folder, cluster(2 + args.data_cpus):
        figures = {"train": train, "predict": predict}[args.what](args, folder)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
