"""Measures the taxi training loop of PyTorch alone, on tensors in memory: {"rows_per_s": [...]}, a rate for each epoch.

    torch_taxi.py <path> --batch B                                       one process
    python -m torch.distributed.run ... torch_taxi.py <path> --batch B   DistributedDataParallel over Gloo

Run it with the python that setup_ray.sh prints. Each process has one thread, and counts the rows of all.
"""

import argparse
import json
import os
import time

import torch

from taxi_features import COLUMNS, LABEL, arrays_of
from torch_model import EPOCHS, adam, fare_predictor, train_step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--start-ns", type=int, help="not needed here")
    args = parser.parse_args()
    torch.set_num_threads(1)
    import pyarrow.parquet as pq

    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    arrays = arrays_of(pq.read_table(args.path, columns=COLUMNS))
    # The part of this process: as many whole batches as each of the others.
    steps = len(arrays[LABEL]) // (args.batch * world)
    part = slice(rank * steps * args.batch, (rank + 1) * steps * args.batch)
    features = torch.from_numpy(arrays["features"][part].copy())
    labels = torch.from_numpy(arrays[LABEL][part].copy()).unsqueeze(1)
    del arrays
    model = fare_predictor()
    if world > 1:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = adam(model)
    rates = []
    for _ in range(EPOCHS):
        start = time.monotonic()
        for i in range(0, len(features), args.batch):
            train_step(model, optimizer, features[i : i + args.batch], labels[i : i + args.batch])
        rates.append(len(features) * world / (time.monotonic() - start))
    if rank == 0:
        print(json.dumps({"rows_per_s": rates[1:]}), flush=True)
    if world > 1:
        torch.distributed.barrier()  # Gloo aborts a process whose peer ends while it still exchanges something.
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
