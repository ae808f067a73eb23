"""Measures Ray Train on one local cluster: the peer of training_bench, with the same work.

    ray_train.py fit                          what fit() of a loop that joins its group and reports costs
    ray_train.py checkpoint [--mode sync|async] [--slow]
                                              how long reporting 1 GiB holds the loop, with Ray's synchronous or
                                              asynchronous upload; --slow: to storage that slow_disk.cc makes slow
    ray_train.py taxi <path> --workers W --batch B --data-cpus D
                                              the training loop; D CPUs are told to Ray beside those of the workers
    ray_train.py kill <path> --data-cpus D    how long two workers that train stand still when one of them is killed

Run it with the python that setup_ray.sh prints. The last line of stdout is one JSON object {"figure": value or list}.
"""

import argparse
import json
import shutil
import tempfile
import time

from gibibyte import REPORTS, figures_of, gibibyte
from ray_cluster import cluster, load_taxi, start_of_process
from ray_recovery import KILLS, killed_loop, recovery_s, start_killer
from taxi_features import LABEL
from torch_model import EPOCHS, adam, fare_predictor, train_step

WARM_FITS = 2  # As in run_figures.cc.


def fit(folder, loop, workers, config=None, max_failures=0, storage=None, **options):
    """One run. Each worker has a CPU."""
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    TorchTrainer(
        loop,
        train_loop_config={**(config or {}), "folder": folder},
        scaling_config=ScalingConfig(num_workers=workers, resources_per_worker={"CPU": 1}),
        run_config=RunConfig(
            storage_path=storage or folder,
            name=f"run-{time.monotonic_ns()}",
            failure_config=FailureConfig(max_failures=max_failures),
            checkpoint_config=CheckpointConfig(num_to_keep=1),
        ),
        **options,
    ).fit()


def save_figures(config, figures):
    """Of rank 0, beside the run: without a checkpoint, Result.metrics is None."""
    from ray import train

    if train.get_context().get_world_rank() == 0:
        with open(f"{config['folder']}/figures.json", "w") as f:
            json.dump(figures, f)


def saved_figures(folder):
    with open(f"{folder}/figures.json") as f:
        return json.load(f)


def empty_loop(config):
    import torch
    from ray import train

    one = torch.ones(1)
    torch.distributed.all_reduce(one)
    assert one.item() == 2
    train.report({"sum": one.item()})


def measure_fit(folder, args):
    fit(folder, empty_loop, workers=2)
    start_ns = args.start_ns or start_of_process()
    cold = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - start_ns) / 1e9
    warm = []
    for _ in range(WARM_FITS):
        start = time.monotonic()
        fit(folder, empty_loop, workers=2)
        warm.append(time.monotonic() - start)
    return {"empty_fit_2_workers_s": warm, "empty_fit_cold_s": cold}


def measure_kill(folder, args):
    killer = start_killer(folder)
    fit(folder, killed_loop, workers=2, max_failures=KILLS, datasets={"train": load_taxi(args.path, "array")})
    return {"recovery_s": recovery_s(folder, killer)}


def checkpoint_loop(config):
    """The files are written to a local disk, then handed to Ray, which uploads them to the storage."""
    import tempfile
    import time

    import torch
    from ray import train
    from ray.train import CheckpointUploadMode

    torch.set_num_threads(1)
    model, holds = gibibyte(), []
    for i in range(config["reports"]):
        start = time.monotonic()
        folder = tempfile.mkdtemp(dir=config["folder"])
        torch.save(model.state_dict(), f"{folder}/model.pt")
        train.report(
            {"i": i},
            checkpoint=train.Checkpoint.from_directory(folder),
            checkpoint_upload_mode=CheckpointUploadMode[config["mode"].upper()],
            delete_local_checkpoint_after_upload=True,
        )
        holds.append(time.monotonic() - start)
        time.sleep(3)  # Stands for training.
    save_figures(config, figures_of(holds))


def measure_checkpoint(folder, args):
    config = {"mode": args.mode, "reports": REPORTS + args.slow}
    storage = f"{folder}/{'slow-disk' if args.slow else 'disk'}"
    fit(folder, checkpoint_loop, workers=1, config=config, storage=storage)
    return saved_figures(folder)


def taxi_loop(config):
    import time

    import torch
    from ray import train
    from ray.train.torch import prepare_model

    torch.set_num_threads(1)
    model = prepare_model(fare_predictor())
    optimizer = adam(model)
    shard, workers = train.get_dataset_shard("train"), train.get_context().get_world_size()
    rates = []
    for _ in range(EPOCHS):
        rows, start = 0, time.monotonic()
        for batch in shard.iter_torch_batches(batch_size=config["batch"], dtypes=torch.float32, drop_last=True):
            train_step(model, optimizer, batch["features"], batch[LABEL].unsqueeze(1))
            rows += len(batch[LABEL]) * workers
        rates.append(rows / (time.monotonic() - start))
    save_figures(config, {"rows_per_s": rates[1:]})


def measure_taxi(folder, args):
    trips = load_taxi(args.path, "array")
    datasets = {"train": trips.materialize() if args.materialize else trips}
    fit(folder, taxi_loop, workers=args.workers, config={"batch": args.batch}, datasets=datasets)
    return saved_figures(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["fit", "kill", "checkpoint", "taxi"])
    parser.add_argument("path", nargs="?", help="of the taxi data")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--data-cpus", type=int, default=0)
    parser.add_argument("--materialize", action="store_true", help="reads the data once, before the fit")
    parser.add_argument("--mode", choices=["sync", "async"], default="sync")
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--start-ns", type=int, help="CLOCK_MONOTONIC right before this process was started")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="ray-bench-")
    measure = {"fit": measure_fit, "kill": measure_kill, "checkpoint": measure_checkpoint, "taxi": measure_taxi}
    try:
        with cluster(args.workers + args.data_cpus):
            figures = measure[args.what](folder, args)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
