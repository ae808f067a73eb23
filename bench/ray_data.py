"""Measures Ray Data on the taxi pipeline: the peer of `training_bench ingest` and `training_bench ingest-peak`.

    ray_data.py ingest <path> --cpus N --form F        {"rows_per_s": [...]}, a rate for each pass, read in the driver
    ray_data.py ingest-peak <path> --cpus N --form F   {"ingest_peak_mb": ...}, sampled meanwhile, which makes it slower

Run it with the python that setup_ray.sh prints.
"""

import argparse
import json
import threading
import time

from ray_cluster import cluster, load_taxi, say, tree_pss_mb
from taxi_features import FEATURES, LABEL, RAY_FORMS

PASSES = 4  # The first warms up.


def ingest(path, form):
    import torch

    torch.set_num_threads(1)
    rates = []
    for _ in range(PASSES):
        dataset = load_taxi(path, form)
        rows, start = 0, time.monotonic()
        for batch in dataset.iter_torch_batches(batch_size=4096, dtypes=torch.float32):
            features = torch.stack([batch[name] for name in FEATURES], 1) if form == "columns" else batch["features"]
            rows += len(batch[LABEL])
            assert features.shape[1] == len(FEATURES)
        elapsed = time.monotonic() - start
        rates.append(rows / elapsed)
        say(f"{rows} rows in {elapsed:.2f} s")
    return rates[1:]


def ingest_peak_mb(path, form):
    done, samples = threading.Event(), []

    def sample():
        while not done.wait(0.05):
            samples.append(tree_pss_mb())

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        ingest(path, form)
    finally:
        done.set()
        sampler.join()
    return max(samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["ingest", "ingest-peak"])
    parser.add_argument("path")
    parser.add_argument("--cpus", type=int, required=True, help="that Ray is told of")
    parser.add_argument("--form", choices=RAY_FORMS, required=True)
    parser.add_argument("--start-ns", type=int, help="not needed here")
    args = parser.parse_args()
    with cluster(args.cpus):
        if args.what == "ingest":
            figures = {"rows_per_s": ingest(args.path, args.form)}
        else:
            figures = {"ingest_peak_mb": ingest_peak_mb(args.path, args.form)}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
