"""Ray Serve with one replica of an XGBoost model: a server for serve_load.py.

    ray_serve.py <folder> [--haproxy] [--batch N]

<folder> is one that `workflow_bench make-served` writes. Prints {"url": ...}, then serves on loopback until its stdin
ends. Run it with the python that setup_ray.sh prints.

  --haproxy   RAY_SERVE_ENABLE_HA_PROXY and RAY_SERVE_THROUGHPUT_OPTIMIZED, as Ray's guide to high throughput has it:
              HAProxy passes requests to the replica, which answers HTTP itself. Otherwise they pass Ray's own proxy
  --batch N   @serve.batch, which passes up to N requests that wait to the model at once
"""

import argparse
import json
import os
import socket
import sys
import tempfile

from ray_cluster import cluster


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def use_haproxy(folder):
    """Ray Serve reads this from the environment when it is imported, in each of its processes."""
    os.environ["RAY_SERVE_THROUGHPUT_OPTIMIZED"] = "1"
    os.environ["RAY_SERVE_ENABLE_HA_PROXY"] = "1"
    os.environ["RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S"] = "0"  # Or shutdown would take 30 s.
    options = {
        "NBTHREAD": 1,  # Not 4: two cores are for load, proxy and replica.
        "MAXCONN": 2000,  # Not 20,000, for which a user may lack the open files.
        "METRICS_ENABLED": 0,
        "METRICS_PORT": free_port(),
        "STATS_PORT": free_port(),
        "CONFIG_FILE_LOC": f"{folder}/haproxy.cfg",
        "SOCKET_PATH": f"{folder}/admin.sock",
        "SERVER_STATE_BASE": folder,
        "SERVER_STATE_FILE": f"{folder}/server-state",
    }
    os.environ.update({f"RAY_SERVE_HAPROXY_{name}": str(value) for name, value in options.items()})


def model_of(folder):
    """The columns of a row, and the model as a function of a list of rows."""
    import numpy
    import xgboost

    booster = xgboost.Booster(model_file=f"{folder}/model.ubj")
    booster.set_param("nthread", 1)
    with open(f"{folder}/scale.json") as f:
        scale = json.load(f)
    mean, std = numpy.asarray(scale["mean"]), numpy.asarray(scale["std"])

    def predict(rows):
        features = ((numpy.asarray(rows) - mean) / std).astype(numpy.float32)
        return booster.inplace_predict(features, validate_features=False)

    return scale["columns"], predict


def application(folder, batch):
    """One replica. Its own code is what an expert writes: nothing but parsing and a call of the library, in the event
    loop, as threads would cost more."""
    from ray import serve
    from starlette.responses import Response

    options = {"num_replicas": 1, "max_ongoing_requests": 1000, "ray_actor_options": {"num_cpus": 1}}

    class Model:
        def __init__(self):
            self.columns, self.predict = model_of(folder)

        async def row(self, request):
            columns = json.loads(await request.body())
            return [columns[name][0] for name in self.columns]

        def answer(self, probability):
            return Response(b'{"predictions":[%.9g]}' % probability, media_type="application/json")

    class OneByOne(Model):
        async def __call__(self, request):
            return self.answer(self.predict([await self.row(request)])[0])

    class Batched(Model):
        @serve.batch(max_batch_size=max(batch, 1), batch_wait_timeout_s=0)
        async def predict_rows(self, rows):
            return self.predict(rows).tolist()

        async def __call__(self, request):
            return self.answer(await self.predict_rows(await self.row(request)))

    return serve.deployment(**options)(Batched if batch else OneByOne).bind()


def serve_until_stdin_ends(args):
    from ray import serve

    port, quiet = free_port(), {"log_level": "ERROR", "enable_access_log": False}
    serve.start(http_options={"host": "127.0.0.1", "port": port}, logging_config=quiet)
    serve.run(application(args.folder, args.batch), name="model", route_prefix="/", logging_config=quiet)
    print(json.dumps({"url": f"http://127.0.0.1:{port}/"}), flush=True)
    sys.stdin.read()
    serve.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--haproxy", action="store_true")
    parser.add_argument("--batch", type=int, default=0)
    args = parser.parse_args()
    # The folder's name is short: that of a socket in it has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        if args.haproxy:
            use_haproxy(folder)
        with cluster():
            serve_until_stdin_ends(args)


if __name__ == "__main__":
    main()
