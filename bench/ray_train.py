"""Measures Ray Train on one local cluster: the peer of training_bench, with the same work.

    ray_train.py fit                                       what an empty fit() costs
    ray_train.py kill                                      how long a killed worker holds the others up
    ray_train.py checkpoint                                how long reporting 1 GiB holds the loop
    ray_train.py taxi <file> --workers W --batch B --rows N   the training loop

Run it with the python that setup_ray.sh prints. The last line of stdout is one JSON object {"metric": value, ...}.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import tempfile
import threading
import time

from ray_cluster import cluster, start_of_process

KILL_AFTER_S = 1


def fit(folder, loop, workers, config=None, max_failures=0, num_to_keep=None, **options):
    """One run. The workers have half a CPU each: Ray Data needs some, too."""
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    TorchTrainer(
        loop,
        train_loop_config={**(config or {}), "folder": folder},
        scaling_config=ScalingConfig(num_workers=workers, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(
            storage_path=folder,
            name=f"run-{time.monotonic_ns()}",
            failure_config=FailureConfig(max_failures=max_failures),
            checkpoint_config=CheckpointConfig(num_to_keep=num_to_keep),
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
    from ray import train

    train.report({"x": 1})


def measure_fit(folder, start_ns):
    fit(folder, empty_loop, workers=2)
    cold = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - start_ns) / 1e9
    warm = []
    for _ in range(2):
        start = time.monotonic()
        fit(folder, empty_loop, workers=2)
        warm.append(time.monotonic() - start)
    return {"empty_fit_2_workers_s": statistics.median(warm), "empty_fit_cold_s": cold}


def starts(folder):
    """{(rank, process): when its loop began}. Each worker says so in a file of its own."""
    result = {}
    for name in os.listdir(folder):
        if name.startswith("start-") and not name.endswith(".partial"):
            _, rank, pid = name.split("-")
            with open(f"{folder}/{name}") as f:
                result[int(rank), int(pid)] = float(f.read())
    return result


def killed_loop(config):
    import os
    import time

    from ray import train

    began, rank = time.monotonic(), train.get_context().get_world_rank()
    again = any(name.startswith(f"start-{rank}-") for name in os.listdir(config["folder"]))
    path = f"{config['folder']}/start-{rank}-{os.getpid()}"
    with open(path + ".partial", "w") as f:
        f.write(str(began))
    os.rename(path + ".partial", path)
    for _ in range(3 if again else 400):
        time.sleep(0.1)
    train.report({"again": again})


def measure_kill(folder, _):
    killed = []

    def kill_rank_1():
        while len(found := starts(folder)) < 2:
            time.sleep(0.01)
        time.sleep(KILL_AFTER_S)
        pid = next(pid for rank, pid in found if rank == 1)
        killed.append(time.monotonic())
        os.kill(pid, signal.SIGKILL)

    threading.Thread(target=kill_rank_1, daemon=True).start()
    fit(folder, killed_loop, workers=2, max_failures=1)
    again = [began for began in starts(folder).values() if began > killed[0]]
    assert len(again) == 2, f"{len(again)} loops began after the kill, not 2"
    return {"recovery_s": max(again) - killed[0]}


def checkpoint_loop(config):
    import statistics
    import tempfile
    import time

    import torch
    from ray import train

    torch.set_num_threads(1)
    model = torch.nn.Module()
    for i in range(16):  # of 64 MiB
        model.register_parameter(f"w{i}", torch.nn.Parameter(torch.rand(4096, 4096)))
    holds = []
    for i in range(3):
        start = time.monotonic()
        with tempfile.TemporaryDirectory(dir=config["folder"]) as folder:
            torch.save(model.state_dict(), f"{folder}/model.pt")
            train.report({"i": i}, checkpoint=train.Checkpoint.from_directory(folder))
            holds.append(time.monotonic() - start)  # Without deleting the files.
        time.sleep(3)
    save_figures(
        config,
        {"checkpoint_1gib_first_hold_s": holds[0], "checkpoint_1gib_hold_s": statistics.median(holds[1:])},
    )


def measure_checkpoint(folder, _):
    fit(folder, checkpoint_loop, workers=1, num_to_keep=1)
    return saved_figures(folder)


def taxi_loop(config):
    import time

    import torch
    from ray import train
    from ray.train.torch import prepare_model
    from torch import nn

    torch.set_num_threads(1)
    model = prepare_model(
        nn.Sequential(
            nn.Linear(6, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 16), nn.BatchNorm1d(16), nn.ReLU(),
            nn.Linear(16, 1), nn.Sigmoid(),
        )
    )  # fmt: skip
    optimizer, loss_of = torch.optim.Adam(model.parameters(), lr=1e-2), nn.SmoothL1Loss()
    shard, workers = train.get_dataset_shard("train"), train.get_context().get_world_size()
    for _ in range(2):  # The first pass warms up.
        rows, start = 0, time.monotonic()
        for batch in shard.iter_torch_batches(batch_size=config["batch"], dtypes=torch.float32, drop_last=True):
            features = torch.stack([batch[name] for name in config["features"]], 1)
            loss = loss_of(model(features), batch[config["label"]].unsqueeze(1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rows += len(features) * workers
            if rows >= config["rows"]:
                break
        elapsed = time.monotonic() - start
    save_figures(config, {"rows_per_s": rows / elapsed, "rows": rows})


def measure_taxi(folder, args):
    from ray_taxi import FEATURES, LABEL, load_dataset

    config = {"batch": args.batch, "rows": args.rows, "features": FEATURES, "label": LABEL}
    fit(folder, taxi_loop, workers=args.workers, config=config, datasets={"train": load_dataset(args.file)})
    return saved_figures(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["fit", "kill", "checkpoint", "taxi"])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--rows", type=int, default=10**12, help="of an epoch, at most")
    parser.add_argument("--start-ns", type=int, help="CLOCK_MONOTONIC right before this process was started")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="ray-bench-")
    try:
        with cluster():
            if args.what == "fit":
                figures = measure_fit(folder, args.start_ns or start_of_process())
            else:
                measure = {"kill": measure_kill, "checkpoint": measure_checkpoint, "taxi": measure_taxi}[args.what]
                figures = measure(folder, args)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
