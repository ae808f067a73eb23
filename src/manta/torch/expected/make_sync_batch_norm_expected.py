"""Writes sync_batch_norm_expected.inc: what BatchNorm makes of the batch of all workers, in one process.

Run it with a Python that has torch 2.13, from this folder: python make_sync_batch_norm_expected.py
"""

import json
import pathlib

import torch

ROWS, FEATURES, LENGTH, STEPS = 10, 3, 2, 3


def numbers(count, start):
    """Exact in float32, the same everywhere."""
    return torch.tensor([((start + i) * 7919 % 1009 - 504) / 512 for i in range(count)], dtype=torch.float32)


def run(momentum):
    model = torch.nn.Sequential(torch.nn.Conv1d(2, FEATURES, 1), torch.nn.BatchNorm1d(FEATURES, momentum=momentum))
    start = 1
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(numbers(parameter.numel(), start).view_as(parameter))
            start += parameter.numel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        inputs = numbers(ROWS * 2 * LENGTH, 100 + step * 1000).view(ROWS, 2, LENGTH) * 3 + 5
        targets = numbers(ROWS * FEATURES * LENGTH, 500 + step * 1000).view(ROWS, FEATURES, LENGTH)
        inputs.requires_grad_()
        optimizer.zero_grad()
        outputs = model(inputs)
        torch.nn.functional.mse_loss(outputs, targets).backward()
        optimizer.step()
    result = {name: tensor.flatten().tolist() for name, tensor in model.state_dict().items()}
    result["outputs"] = outputs.flatten().tolist()
    result["input_gradients"] = inputs.grad.flatten().tolist()
    model.eval()
    result["evaluated"] = model(inputs).flatten().tolist()
    return result


if __name__ == "__main__":
    expected = {"momentum": run(0.1), "average": run(None)}
    target = pathlib.Path(__file__).with_name("sync_batch_norm_expected.inc")
    target.write_text(f'R"json({json.dumps(expected)})json"\n')
