"""A training loop on Ray that is killed while it trains, and who kills it: as recovery_figures.cc does with Manta."""

import os
import signal
import threading
import time

from taxi_features import LABEL
from torch_model import adam, fare_predictor, train_step

KILLS = 2
LAST_EPOCHS = 2  # After the last kill.
STEPS_BEFORE_KILL = 5  # In the epoch after an attempt's first checkpoint.


def tell(folder, event, attempt, rank):
    """When something happened, and in which process, in a file that appears when it is complete."""
    path = f"{folder}/{event}-{attempt}-{rank}"
    with open(path + ".partial", "w") as f:
        f.write(f"{time.monotonic()} {os.getpid()}")
    os.rename(path + ".partial", path)


def told(folder, event, attempt, rank):
    """(when, process)."""
    with open(f"{folder}/{event}-{attempt}-{rank}") as f:
        when, pid = f.read().split()
    return float(when), int(pid)


def killed_loop(config):
    """A checkpoint after each epoch. Trains until it is killed; in the last attempt, a little longer."""
    import tempfile

    import torch
    from ray import train
    from ray.train.torch import prepare_model

    torch.set_num_threads(1)
    folder, rank = config["folder"], train.get_context().get_world_rank()
    attempt = sum(os.path.exists(f"{folder}/start-{i}-{rank}") for i in range(KILLS + 1))
    tell(folder, "start", attempt, rank)
    model = prepare_model(fare_predictor())
    optimizer, first = adam(model), 0
    if checkpoint := train.get_checkpoint():
        with checkpoint.as_directory() as saved_folder:
            saved = torch.load(f"{saved_folder}/state.pt")
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1
    shard = train.get_dataset_shard("train")
    for epoch in range(first, first + (LAST_EPOCHS if attempt == KILLS else 1000)):
        steps = 0
        for batch in shard.iter_torch_batches(batch_size=1024, dtypes=torch.float32, drop_last=True):
            train_step(model, optimizer, batch["features"], batch[LABEL].unsqueeze(1))
            steps += 1
            if epoch == first and steps == 1:
                tell(folder, "step", attempt, rank)
            if epoch == first + 1 and steps == STEPS_BEFORE_KILL:
                tell(folder, "trains", attempt, rank)
        if rank > 0:
            train.report({"epoch": epoch})
            continue
        with tempfile.TemporaryDirectory() as files:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            torch.save(state, f"{files}/state.pt")
            train.report({"epoch": epoch}, checkpoint=train.Checkpoint.from_directory(files))


class Killer(threading.Thread):
    """Kills rank 1 of each attempt but the last when both ranks train."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.killed = folder, []

    def run(self):
        for attempt in range(KILLS):
            while not all(os.path.exists(f"{self.folder}/trains-{attempt}-{rank}") for rank in (0, 1)):
                time.sleep(0.002)
            _, pid = told(self.folder, "trains", attempt, 1)
            self.killed.append(time.monotonic())
            os.kill(pid, signal.SIGKILL)


def start_killer(folder):
    killer = Killer(folder)
    killer.start()
    return killer


def recovery_s(folder, killer):
    """From each kill until both ranks had done a step again."""
    assert len(killer.killed) == KILLS, f"{len(killer.killed)} kills, not {KILLS}"
    return [
        max(told(folder, "step", attempt, rank)[0] for rank in (0, 1)) - killed
        for attempt, killed in enumerate(killer.killed, 1)
    ]
