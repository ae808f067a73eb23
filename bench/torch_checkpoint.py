"""Measures how long PyTorch alone holds a loop that saves a model of 1 GiB every 3 s.

    torch_checkpoint.py save [--slow]    torch.save
    torch_checkpoint.py async [--slow]   torch.distributed.checkpoint.async_save, which copies, and writes meanwhile; a
                                         second one waits for the first

`--slow`: into a folder that slow_disk.cc makes slow. Run it with the python that setup_ray.sh prints.
"""

import argparse
import json
import os
import shutil
import tempfile
import time

import torch

from gibibyte import REPORTS, figures_of, gibibyte


def save(model, path):
    torch.save(model.state_dict(), f"{path}.pt")


class AsyncSave:
    def __init__(self):
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

        torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
        self.future = None
        # Keeps the memory of a copy for the next one. Everything else of it is for accelerators or other processes.
        self.stager = DefaultStager(StagingOptions(use_pinned_memory=False, use_shared_memory=False,
                                                   use_async_staging=False, use_non_blocking_copy=False))  # fmt: skip

    def __call__(self, model, path):
        import torch.distributed.checkpoint as dcp

        if self.future:
            self.future.result()
        self.future = dcp.async_save({"model": model.state_dict()}, checkpoint_id=path, async_stager=self.stager)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["save", "async"])
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--start-ns", type=int, help="not needed here")
    args = parser.parse_args()
    torch.set_num_threads(1)
    folder = tempfile.mkdtemp(prefix="torch-bench-")
    try:
        storage = f"{folder}/{'slow-disk' if args.slow else 'disk'}"
        os.mkdir(storage)
        model, holds = gibibyte(), []
        hand_over = save if args.what == "save" else AsyncSave()
        for i in range(REPORTS + args.slow):
            start = time.monotonic()
            hand_over(model, f"{storage}/checkpoint-{i % 2}")
            holds.append(time.monotonic() - start)
            time.sleep(3)
        if args.what == "async":
            hand_over.future.result()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(figures_of(holds)))


if __name__ == "__main__":
    main()
