"""Measures Ray Data on the taxi pipeline: the peer of `training_bench ingest` and `training_bench ingest-peak`.

    ray_data.py ingest <file>        {"rows_per_s": ...} of the second of two passes, read in the driver
    ray_data.py ingest-peak <file>   {"ingest_peak_mb": ...}, sampled meanwhile, which makes it slower

Run it with the python that setup_ray.sh prints.
"""

import argparse
import json
import threading
import time

from ray_cluster import cluster, say, tree_pss_mb
from ray_taxi import FEATURES, LABEL, load_dataset

PASSES = 2  # The first warms up.


def ingest(path):
    """Rows a second of the last pass."""
    import torch

    torch.set_num_threads(1)
    for _ in range(PASSES):
        dataset = load_dataset(path)
        rows, start = 0, time.monotonic()
        for batch in dataset.iter_torch_batches(batch_size=4096, dtypes=torch.float32):
            torch.stack([batch[name] for name in FEATURES], 1)
            rows += len(batch[LABEL])
        elapsed = time.monotonic() - start
        say(f"{rows} rows in {elapsed:.2f} s")
    return rows / elapsed


def ingest_peak_mb(path):
    done, samples = threading.Event(), []

    def sample():
        while not done.wait(0.05):
            samples.append(tree_pss_mb())

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        ingest(path)
    finally:
        done.set()
        sampler.join()
    return max(samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["ingest", "ingest-peak"])
    parser.add_argument("file")
    parser.add_argument("--start-ns", type=int, help="not needed here")
    args = parser.parse_args()
    with cluster():
        if args.what == "ingest":
            figures = {"rows_per_s": ingest(args.file)}
        else:
            figures = {"ingest_peak_mb": ingest_peak_mb(args.file)}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
