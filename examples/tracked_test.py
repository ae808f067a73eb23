"""Runs the example that logs to MLflow against a real server, and looks at what the server has.

    tracked_test.py <tracked> <mlflow_server.py>

Its Python is the one that has MLflow.
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

LIMIT_S = 100


def ask(url, endpoint, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/api/2.0/mlflow/{endpoint}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=LIMIT_S) as response:
        return json.load(response)


def check(program, url, folder):
    done = subprocess.run([program, "--mlflow", url, "--storage", str(folder / "runs")], stdin=subprocess.DEVNULL,
                          env=dict(os.environ, HOME=str(folder)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=LIMIT_S)  # fmt: skip
    print(done.stdout)
    assert done.returncode == 0, f"exit code {done.returncode}"
    assert f"registered as line 1 at {url}" in done.stdout
    assert "MLflowLoggerCallback" not in done.stdout, "the tracker had trouble"

    experiment = ask(url, "experiments/get-by-name?experiment_name=train_experiment")["experiment"]["experiment_id"]
    runs = ask(url, "runs/search", {"experiment_ids": [experiment]})["runs"]
    assert len(runs) == 1, runs
    run = runs[0]
    assert run["info"]["status"] == "FINISHED", run["info"]
    parameters = {each["key"]: each["value"] for each in run["data"]["params"]}
    assert parameters == {"lr": "0.1", "epochs": "5", "num_workers": "2"}, parameters
    losses = ask(url, f"metrics/get-history?run_id={run['info']['run_id']}&metric_key=loss")["metrics"]
    assert sorted(each["step"] for each in losses) == list(range(5)), losses
    version = ask(url, "model-versions/get?name=line&version=1")["model_version"]
    assert version["run_id"] == run["info"]["run_id"], version


def main():
    program, server_program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "server").mkdir()
        server = subprocess.Popen([sys.executable, "-B", server_program, str(folder / "server")],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
        try:
            port = server.stdout.readline().strip()
            assert port, (folder / "server" / "server.log").read_text()
            check(program, f"http://127.0.0.1:{port}", folder)
        finally:
            server.stdin.close()  # it ends then, with its own processes
            server.wait(timeout=LIMIT_S)


if __name__ == "__main__":
    main()
