"""Starts a server of a model, loads it with wrk over loopback, and prints figures.

    serve_load.py rates <folder> --server <command line>
        {"c1_per_s": [...], "c1_p99_ms": [...], ...}: requests a second and the time that 99% of them stay below, with
        1, 16 and 256 connections
    serve_load.py kill <folder> --replica <text> --server <command line>
        {"failed": n, "answered_per_s": x}, of 30 s of load with 16 connections, while the replica gets a SIGKILL every
        200 ms. Replicas are the processes below the server that have <text> in their command line or name

<folder> is one that `workflow_bench make-served` writes. The server prints {"url": ...} when it is ready, and ends when
its stdin does. Before the load, its answer to the request must be right.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from contestant import Failed, end_group

BENCH = Path(__file__).resolve().parent
START_S, STOP_S = 120, 60
CONNECTIONS, WARM_UP_S, LOAD_S, LOADS = (1, 16, 256), 1, 2, 2
KILL_CONNECTIONS, KILL_S, KILL_EVERY_S = 16, 30, 0.2


@contextmanager
def serving(command):
    """Its process and URL. At the end, it gets the chance to end by itself."""
    process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               start_new_session=True)  # fmt: skip
    starting = threading.Timer(START_S, process.kill)
    starting.start()
    try:
        line = process.stdout.readline()
        starting.cancel()
        if not line:
            raise Failed(f"{command} ended, or did not get ready within {START_S} s")
        yield process, json.loads(line)["url"]
        process.stdin.close()
        process.wait(STOP_S)
    finally:
        starting.cancel()
        end_group(process)


def numbers(answer):
    """Those in a value of JSON, whatever its form."""
    if isinstance(answer, (dict, list)):
        return [x for part in (answer.values() if isinstance(answer, dict) else answer) for x in numbers(part)]
    return [answer] if isinstance(answer, (int, float)) else []


def ask(url, folder):
    """The bytes of one answer, which is checked."""
    request = urllib.request.Request(url, (folder / "request.json").read_bytes(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as response:
        answer = response.read()
    wanted = json.loads((folder / "answer.json").read_text())
    if not any(abs(x - wanted) < 1e-5 for x in numbers(json.loads(answer))):
        raise Failed(f"the model predicts {wanted}, {url} answered {answer}")
    return answer


def wrk(url, folder, connections, seconds, *answer):
    """One load. The timeout is long: a request that waits for a new replica has not failed."""
    load = ["-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "--timeout", "20s"]
    argv = ["wrk", *load, "-s", str(BENCH / "serve_request.lua"), url, "--", str(folder / "request.json"), *answer]
    try:
        output = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=seconds + 60, check=True).stdout
    except FileNotFoundError:
        raise Failed("wrk is not installed: run scripts/setup.sh bench")
    result = json.loads(output.splitlines()[-1])
    print(f"serve_load: {connections} connections: {result}", file=sys.stderr, flush=True)
    return result


def rates(url, folder):
    figures = {}
    for n in CONNECTIONS:
        loads = []
        for seconds in (WARM_UP_S, *[LOAD_S] * LOADS):
            ask(url, folder)  # Answered when the server is done with what the load before has left.
            loads.append(wrk(url, folder, n, seconds))
            if loads[-1]["socket_errors"] or loads[-1]["not_ok"]:
                raise Failed(f"requests failed: {loads[-1]}")
        loads = loads[1:]
        figures[f"c{n}_per_s"] = [load["requests"] / load["seconds"] for load in loads]
        figures[f"c{n}_p99_ms"] = [load["p99_ms"] for load in loads]
    return figures


def descendants(pid):
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):  # It has just ended.
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found[1:]


def is_called(pid, text):
    try:
        process = Path("/proc") / str(pid)
        return text in (process / "cmdline").read_text() or text in (process / "comm").read_text()
    except OSError:
        return False


def kill(process, url, folder, replica):
    done, kills = threading.Event(), []

    def kill_replicas():
        while not done.wait(KILL_EVERY_S):
            for pid in descendants(process.pid):
                if is_called(pid, replica):
                    os.kill(pid, signal.SIGKILL)
                    kills.append(pid)

    with tempfile.NamedTemporaryFile() as answer:
        answer.write(ask(url, folder))
        answer.flush()
        killer = threading.Thread(target=kill_replicas)
        killer.start()
        try:
            load = wrk(url, folder, KILL_CONNECTIONS, KILL_S, answer.name)
        finally:
            done.set()
            killer.join()
    print(f"serve_load: {len(kills)} kills, {len(set(kills))} processes", file=sys.stderr, flush=True)
    if not kills:
        raise Failed(f"no process below the server is called '{replica}'")
    # Answers that are not OK are among the wrong ones.
    failed = load["socket_errors"] + load["timeouts"] + load["wrong"]
    return {"failed": failed, "answered_per_s": (load["requests"] - load["wrong"]) / load["seconds"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["rates", "kill"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--server", required=True)
    parser.add_argument("--replica", help="for kill")
    parser.add_argument("--start-ns", type=int, help="not needed here")
    args = parser.parse_args()
    # As an exception, SIGTERM reaches the code that ends the server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with serving(args.server) as (process, url):
            if args.what == "rates":
                figures = rates(url, args.folder)
            else:
                figures = kill(process, url, args.folder, args.replica)
    except Failed as e:
        sys.exit(f"serve_load: {e}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
