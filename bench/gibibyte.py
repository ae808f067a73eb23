"""The model of 1 GiB of the checkpoint benchmarks in Python, and what is told of them: as in run_figures.cc."""

REPORTS = 4  # One more if the disk is slow.


def gibibyte():
    import torch

    model = torch.nn.Module()
    for i in range(16):  # of 64 MiB
        model.register_parameter(f"w{i}", torch.nn.Parameter(torch.rand(4096, 4096)))
    return model


def figures_of(holds):
    return {"first_hold_s": holds[0], "hold_s": holds[1:], "worst_hold_s": max(holds[1:])}
