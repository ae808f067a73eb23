"""Runs one program of a benchmark, with a deadline, and reads the figures that it prints."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time


class Failed(Exception):
    """A program did not deliver. The message is for the user."""


def run_to_end(argv, deadline_s, show_stderr=False):
    """Runs a program and returns its stdout. Throws Failed with the tail of its stderr, which is shown as it comes
    instead if `show_stderr`. No process of the program's process group outlives the call."""
    # Files, not pipes: a daemon that outlives the program would hold a pipe open, and this call with it.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        stderr = sys.stderr if show_stderr else err
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=stderr, start_new_session=True
            )
        except OSError as e:
            raise Failed(f"{argv[0]} does not start: {e.strerror}")
        try:
            if has_ended(process, deadline_s):
                problem = f"exit status {process.returncode}" if process.wait() else None
            else:
                problem = f"not done after {deadline_s} s"
        finally:
            end_group(process)
        if problem:
            err.seek(0)
            tail = "".join(err.readlines()[-30:]).rstrip()
            raise Failed(f"{' '.join(argv)}: {problem}" + (f"; the end of its stderr:\n{tail}" if tail else ""))
        out.seek(0)
        return out.read()


def has_ended(process, deadline_s):
    """Sleeps until then, where Popen.wait would look twenty times a second and disturb what is measured."""
    fd = os.pidfd_open(process.pid)
    try:
        return bool(select.select([fd], [], [], deadline_s)[0])
    finally:
        os.close(fd)


def end_group(process):
    """Asks the program to end, if it still runs, so that it can delete its files; then kills what is left of its
    group. Also after success: what a contestant leaves running would disturb the next one."""
    try:
        process.terminate()
        process.wait(15)
    except subprocess.TimeoutExpired:
        pass
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def measure(argv, wanted, deadline_s, counts=()):
    """One run of a contestant: {name: [value, ...]} for {name: what the contestant calls it}, from the JSON object on
    its last line. Values are positive; those of the names in `counts` may be zero."""
    # The clock of the cold start begins here for every contestant, whatever language it is written in.
    start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    lines = run_to_end([*argv, "--start-ns", str(start_ns)], deadline_s).splitlines() or [""]
    try:
        values = {name: json.loads(lines[-1]).get(figure, []) for name, figure in wanted.items()}
        values = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
        missing = [wanted[name] for name, value in values.items()
                   if not value or not all(x > 0 or (x == 0 and name in counts) for x in value)]  # fmt: skip
    except (ValueError, TypeError, AttributeError):
        raise Failed(f"{' '.join(argv)}: the last line of its stdout must be a JSON object of numbers or lists of "
                     f"numbers, was: '{lines[-1]}'")  # fmt: skip
    if missing:
        raise Failed(f"{' '.join(argv)}: no positive value for {', '.join(missing)} in: {lines[-1]}")
    return values
