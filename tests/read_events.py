"""Reads TensorBoard's event files back with the tensorboard package itself, for tests.

Usage: read_events.py <folder>. Prints one JSON object: scalars, texts and histograms by tag, each a list of [step, value],
and the run's hyper-parameters. NaN is null.
"""

import json
import math
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import tensor_util


def main(folder):
    events = event_accumulator.EventAccumulator(
        folder, size_guidance={name: 0 for name in ("scalars", "histograms", "tensors")})
    events.Reload()
    tags = events.Tags()
    found = {"scalars": {}, "histograms": {}, "texts": {}, "hparams": {}, "status": None}
    for tag in tags["scalars"]:
        found["scalars"][tag] = [[e.step, None if math.isnan(e.value) else e.value] for e in events.Scalars(tag)]
    for tag in tags["histograms"]:
        found["histograms"][tag] = [
            [e.step, {"min": e.histogram_value.min, "max": e.histogram_value.max, "num": e.histogram_value.num,
                      "sum": e.histogram_value.sum, "limits": list(e.histogram_value.bucket_limit),
                      "counts": list(e.histogram_value.bucket)}] for e in events.Histograms(tag)]
    for tag in tags["tensors"]:
        metadata = events.SummaryMetadata(tag)
        if metadata.plugin_data.plugin_name == "hparams":
            data = plugin_data_pb2.HParamsPluginData.FromString(metadata.plugin_data.content)
            if data.HasField("session_start_info"):
                for name, value in data.session_start_info.hparams.items():
                    kind = value.WhichOneof("kind")
                    found["hparams"][name] = getattr(value, kind)
            if data.HasField("session_end_info"):
                found["status"] = data.session_end_info.status
        elif metadata.plugin_data.plugin_name == "text":
            found["texts"][tag] = [[e.step, tensor_util.make_ndarray(e.tensor_proto).item().decode()]
                                   for e in events.Tensors(tag)]
    print(json.dumps(found))


main(sys.argv[1])
