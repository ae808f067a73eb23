"""Writes precision_expected.inc: what Python's autocast and GradScaler make of a small model.

Run it with a Python that has torch 2.13, from this folder: python make_precision_expected.py
"""

import json
import pathlib

import torch

STEPS, ROWS = 12, 8


def numbers(count, start):
    """Exact in float32, the same everywhere."""
    return torch.tensor([((start + i) * 7919 % 1009 - 504) / 512 for i in range(count)], dtype=torch.float32)


def make_model():
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    start = 1
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(numbers(parameter.numel(), start).view_as(parameter))
            start += parameter.numel()
    return model


def train(dtype, scaler, accumulate=1):
    """The types inside, the loss of each step, the scale after each, and the weights at the end."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses, scales = [], []
    for step in range(STEPS):
        inputs = numbers(ROWS * 4, 100 + step * ROWS * 4).view(ROWS, 4)
        if step in (3, 7):
            inputs = inputs * 1e5  # beyond float16: a step that is left out
        targets = numbers(ROWS, 5000 + step * ROWS).view(ROWS, 1)
        with torch.autocast("cpu", dtype=dtype):
            outputs = model(inputs)
            loss = torch.nn.functional.mse_loss(outputs.float(), targets) / accumulate
        scaler.scale(loss).backward()
        losses.append(loss.item())
        if (step + 1) % accumulate == 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        scales.append(scaler.get_scale())
    return {"type": str(outputs.dtype), "scales": scales,
            "losses": [loss if loss == loss and loss < 1e30 else "odd" for loss in losses],
            "weights": torch.cat([p.detach().flatten() for p in model.parameters()]).tolist(),
            "state": scaler.state_dict()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    expected = {
        "float16": train(torch.float16, torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)),
        "bfloat16": train(torch.bfloat16, torch.amp.GradScaler("cpu", enabled=False)),
        "accumulated": train(torch.bfloat16, torch.amp.GradScaler("cpu", enabled=False), accumulate=4),
    }
    target = pathlib.Path(__file__).with_name("precision_expected.inc")
    target.write_text(f'R"json({json.dumps(expected)})json"\n')
