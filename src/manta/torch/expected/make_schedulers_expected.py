"""Writes schedulers_expected.inc: the learning rates, and momenta, of Python's schedulers.

Run it with a Python that has torch 2.13, from this folder: python make_schedulers_expected.py
"""

import json
import pathlib
import warnings

import torch
from torch.optim import lr_scheduler as schedulers

warnings.simplefilter("ignore")  # no optimizer steps are made


def sgd(momentum=0.0):
    """Two groups with different rates."""
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": lr} for lr in (0.5, 0.02)]
    return torch.optim.SGD(groups, lr=0.1, momentum=momentum)


def adam():
    return torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=0.1)


def rates(optimizer, scheduler, steps, metrics=None):
    """The rates of every group, then the first group's momentum, at the start and after each step."""
    table = []
    for step in range(steps + 1):
        if step > 0:
            scheduler.step(*([metrics[step - 1]] if metrics else []))
        group = optimizer.param_groups[0]
        momentum = group["betas"][0] if "betas" in group else group["momentum"]
        table.append([g["lr"] for g in optimizer.param_groups] + [momentum])
    return table


def make():
    expected = {}

    def add(name, optimizer, make_scheduler, steps, metrics=None):
        expected[name] = rates(optimizer, make_scheduler(optimizer), steps, metrics)

    add("cosine", sgd(), lambda o: schedulers.CosineAnnealingLR(o, T_max=8), 8)
    add("cosine_eta_min_and_on", sgd(), lambda o: schedulers.CosineAnnealingLR(o, T_max=7, eta_min=0.01), 20)
    add("warmup", sgd(), lambda o: schedulers.LinearLR(o, start_factor=0.25, total_iters=6), 9)
    add("warmup_default", sgd(), lambda o: schedulers.LinearLR(o), 7)

    def warmup_then_cosine(optimizer):
        parts = [schedulers.LinearLR(optimizer, start_factor=0.1, total_iters=4),
                 schedulers.CosineAnnealingLR(optimizer, T_max=10)]
        return schedulers.SequentialLR(optimizer, parts, milestones=[4])

    add("warmup_then_cosine", sgd(), warmup_then_cosine, 14)
    add("one_cycle", sgd(0.9), lambda o: schedulers.OneCycleLR(o, max_lr=0.8, total_steps=20), 19)
    add("one_cycle_linear", sgd(0.9), lambda o: schedulers.OneCycleLR(
        o, max_lr=0.8, total_steps=15, pct_start=0.4, anneal_strategy="linear", base_momentum=0.7, max_momentum=0.9,
        div_factor=10, final_div_factor=100), 14)
    add("one_cycle_three_phases", adam(), lambda o: schedulers.OneCycleLR(
        o, max_lr=0.3, total_steps=21, three_phase=True), 20)
    add("one_cycle_without_momentum", sgd(0.9), lambda o: schedulers.OneCycleLR(
        o, max_lr=0.8, total_steps=10, cycle_momentum=False), 9)
    losses = [3, 2, 1, 1, 1, 1, 0.99995, 1, 1, 1, 1, 0.5, 1, 1, 1, 1, 1, 1, 1, float("nan"), 1, 1, 1, 1]
    expected["metrics"] = [m if m == m else "nan" for m in losses]
    add("plateau", sgd(), lambda o: schedulers.ReduceLROnPlateau(o, factor=0.3, patience=2), len(losses), losses)
    add("plateau_maximize", sgd(), lambda o: schedulers.ReduceLROnPlateau(
        o, mode="max", factor=0.5, patience=1, threshold=0.1, threshold_mode="abs", cooldown=2, min_lr=0.01),
        len(losses), losses)
    return expected


if __name__ == "__main__":
    target = pathlib.Path(__file__).with_name("schedulers_expected.inc")
    target.write_text(f'R"json({json.dumps(make())})json"\n')
