"""A real `mlflow server` for tests, on a free port of the loopback interface.

Usage: mlflow_server.py <folder>. Prints the port once the server answers; ends it, with its own processes, when standard
input is closed.
"""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request


def main(folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = dict(os.environ, MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false", MLFLOW_DISABLE_TELEMETRY="true")
    log = open(os.path.join(folder, "server.log"), "wb")
    server = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
         "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/artifacts"],
        env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        while server.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).read()
                print(port, flush=True)
                sys.stdin.read()
                return
            except OSError:
                time.sleep(0.1)
    finally:
        try:
            os.killpg(server.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        server.wait()


main(sys.argv[1])
