"""Serves detached with an example, asks the URL when the program has ended, and shuts it down: nothing must be left.

    detached_test.py <breast_cancer>
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

TABLE = Path(__file__).resolve().parent / "data" / "breast_cancer.csv"
LIMIT_S = 50


def run(program, folder, *arguments):
    """Its output. Temporary files and results go to the folder."""
    environment = dict(os.environ, TMPDIR=str(folder / "tmp"), HOME=str(folder / "home"))
    done = subprocess.run([program, *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True, timeout=2 * LIMIT_S)  # fmt: skip
    assert done.returncode == 0, f"{arguments}: exit code {done.returncode}, {done.stdout}"
    return done.stdout.splitlines()


def ask(url):
    names, row = (line.split(",") for line in TABLE.read_text().splitlines()[:2])
    body = json.dumps({name: [float(value)] for name, value in zip(names, row) if name != "target"}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=LIMIT_S) as response:
        return json.load(response)


def processes_in(folder):
    """Those whose temporary files are there."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"TMPDIR={folder}/tmp".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:  # It has just ended, or is somebody else's.
            continue
    return found


def is_gone(url, folder):
    try:
        ask(url)
        return False
    except urllib.error.HTTPError:
        return False
    except OSError:
        return not processes_in(folder) and not list((folder / "tmp").iterdir())


def eventually(condition):
    end = time.monotonic() + LIMIT_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        (folder / "home").mkdir()
        try:
            lines = run(program, folder, "--detached", "--port", "0", str(TABLE))
            url = lines[-2]
            assert lines[-1].startswith('answer: {"predictions":['), lines
            assert processes_in(folder), "the program has ended, and what it serves with it"
            first, second = ask(url), ask(url)
            assert first == second and 0 <= first["predictions"][0] <= 1, (first, second)
        finally:
            run(program, folder, "--shutdown")
        assert eventually(lambda: is_gone(url, folder)), (processes_in(folder), list((folder / "tmp").iterdir()))


if __name__ == "__main__":
    main()
