"""What Ray Data 2.59 makes of lists that all have one length with Concatenator(flatten=True): writes concatenator.json
beside this file, for concatenator_test.cc.

Run it when a case is added, with a Python that has "ray[data]==2.59.*":  python make_concatenator_expected.py
"""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import ray
from ray.data import preprocessors as rp

COLUMNS = {
    "ints": (pa.list_(pa.int64()), [[1, -2], [3, 4], [5, 6]]),
    "large": (pa.large_list(pa.int16()), [[7], [8], [9]]),
    "floats": (pa.list_(pa.float32()), [[1.5, 0.1, 2], [2.5, 0.2, 3], [3.5, 0.3, 4]]),
    "flags": (pa.list_(pa.bool_()), [[True], [False], [True]]),
    "none": (pa.list_(pa.float64()), [[], [], []]),
    "fixed": (pa.list_(pa.int32(), 2), [[10, 20], [30, 40], [50, 60]]),
    "x": (pa.float64(), [0.5, -1.25, 1e100]),
    "i": (pa.int8(), [-1, 0, 1]),
}
CASES = [
    (["ints"], None), (["ints", "i"], None), (["i", "ints"], None), (["ints", "floats"], None), (["floats"], None),
    (["fixed", "ints", "large"], None), (["flags", "i"], None), (["none", "i"], None), (["ints", "none"], None),
    (["ints", "x", "floats", "fixed"], None), (["ints", "i"], "float32"), (["x", "large"], "float64"),
    (["flags", "ints"], "int32"),
]  # fmt: skip

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
ray.data.DataContext.get_current().enable_progress_bars = False
table = pa.table({name: pa.array(values, type=kind) for name, (kind, values) in COLUMNS.items()})
cases = []
for columns, dtype in CASES:
    # In one block, so that rows keep their order.
    concatenator = rp.Concatenator(columns, flatten=True, dtype=np.dtype(dtype) if dtype else None)
    rows = concatenator.transform(ray.data.from_arrow(table.select(columns))).take_all()
    vectors = [np.asarray(row["concat_out"]) for row in rows]
    cases.append({"columns": columns, "dtype": dtype or "", "result": str(vectors[0].dtype),
                  "expected": [vector.tolist() for vector in vectors]})  # fmt: skip
out = {"columns": {name: {"type": str(kind), "values": values} for name, (kind, values) in COLUMNS.items()},
       "cases": cases}  # fmt: skip
Path(__file__).with_name("concatenator.json").write_text(json.dumps(out, indent=1) + "\n")
