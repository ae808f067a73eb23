"""The taxi model and its step in Python, for Ray and for PyTorch alone: FarePredictor of taxi_model.h."""

EPOCHS = 4  # The first warms up.


def fare_predictor():
    from torch import nn

    return nn.Sequential(
        nn.Linear(6, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 16), nn.BatchNorm1d(16), nn.ReLU(),
        nn.Linear(16, 1), nn.Sigmoid(),
    )  # fmt: skip


def adam(model):
    """PyTorch's fused kernel: one call for all parameters, where the default is a loop in Python."""
    import torch

    return torch.optim.Adam(model.parameters(), lr=1e-2, fused=True)


def train_step(model, optimizer, features, labels):
    import torch

    loss = torch.nn.functional.smooth_l1_loss(model(features), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
