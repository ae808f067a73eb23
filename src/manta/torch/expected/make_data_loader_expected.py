"""Writes data_loader_expected.inc: the rows that Python's DistributedSampler gives each worker.

Run it with a Python that has torch 2.13, from this folder: python make_data_loader_expected.py
"""

import json
import pathlib

from torch.utils.data import DistributedSampler

cases = []
for rows, workers in ((10, 2), (10, 3), (7, 4), (2, 5), (9, 1)):
    for shuffle in (False, True):
        for drop_last in (False, True):
            for epoch in (0, 3):
                for rank in range(workers):
                    if drop_last and rows < workers:
                        continue
                    sampler = DistributedSampler(range(rows), workers, rank, shuffle=shuffle, seed=11, drop_last=drop_last)
                    sampler.set_epoch(epoch)
                    cases.append({"rows": rows, "workers": workers, "rank": rank, "shuffle": shuffle,
                                  "drop_last": drop_last, "epoch": epoch, "expected": list(sampler)})
target = pathlib.Path(__file__).with_name("data_loader_expected.inc")
target.write_text(f'R"json({json.dumps(cases)})json"\n')
