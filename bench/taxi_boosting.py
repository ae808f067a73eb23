"""What every peer in Python boosts, and predicts with: as workflow_bench does."""

import functools

ROUNDS = 20
PARAMS = {
    "objective": "binary:logistic",
    "eval_metric": "logloss",
    "tree_method": "hist",
    "max_depth": 6,
    "eta": 0.3,
}


def boost(rows, label, nthread, matrix="QuantileDMatrix", callbacks=()):
    """Returns the booster, the seconds for building the matrix, and those for boosting. DMatrix leaves the quantiles to
    the first round; QuantileDMatrix finds them first, and takes less memory."""
    import time

    import xgboost

    start = time.monotonic()
    train = getattr(xgboost, matrix)(rows, label, nthread=nthread)
    built = time.monotonic()
    history = {}
    booster = xgboost.train({**PARAMS, "nthread": nthread}, train, ROUNDS, evals=[(train, "train")],
                            evals_result=history, verbose_eval=False, callbacks=list(callbacks))  # fmt: skip
    assert history["train"]["logloss"][-1] < 0.69, history
    return booster, built - start, time.monotonic() - built


@functools.cache
def booster_of(model, nthread=1):
    """Of a file. Loaded once by each process, and Ray reuses those of tasks."""
    import xgboost

    booster = xgboost.Booster(model_file=model)
    booster.set_param("nthread", nthread)
    return booster
