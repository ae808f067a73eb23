"""Writes ddp_expected.inc: what PyTorch's DistributedDataParallel makes of a small model with BatchNorm.

Two ranks over Gloo, SGD with momentum, numbers from a formula that the test repeats. Run it with a Python that has
torch 2.13, from this folder: python make_ddp_expected.py
"""

import json
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

STEPS, ROWS, WORLD = 25, 6, 2


def numbers(count, start):
    """Exact in float32, the same everywhere."""
    values = [((start + i) * 7919 % 1009 - 504) / 512 for i in range(count)]
    return torch.tensor(values, dtype=torch.float32)


def make_model():
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
    )
    start = 1
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(numbers(parameter.numel(), start).view_as(parameter))
            start += parameter.numel()
    return model


def run(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    model = torch.nn.parallel.DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        start = (step * WORLD + rank) * ROWS
        inputs = numbers(ROWS * 4, 100 + start * 4).view(ROWS, 4)
        targets = numbers(ROWS * 3, 5000 + start * 3).view(ROWS, 3)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    model.eval()
    outputs = model(numbers(ROWS * 4, 77).view(ROWS, 4))  # also gives rank 1 the buffers of rank 0
    if rank == 1:
        tensors = {name: tensor.flatten().tolist() for name, tensor in model.module.state_dict().items()}
        tensors["outputs"] = outputs.flatten().tolist()
        text = json.dumps(tensors, indent=1)
        target = pathlib.Path(__file__).with_name("ddp_expected.inc")
        target.write_text(f'R"json({text})json"\n')
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, args=(folder,), nprocs=WORLD)
