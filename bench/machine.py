"""Where and with what a suite is measured: machine, load, versions, flags."""

import functools
import os
import platform
import re
import subprocess
from datetime import datetime
from pathlib import Path

BENCH = Path(__file__).resolve().parent


def output(*argv):
    """The first line that a command prints, or "unknown"."""
    try:
        lines = subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        lines = []
    return lines[0].strip() if lines else "unknown"


def machine():
    cpus = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{cpus[0] if cpus else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"{platform.system()} {platform.release()}"
    )


def load():
    return round(os.getloadavg()[0], 2)


def build_flags(build_dir):
    """From CMake's cache: build type, compiler and its flags."""
    cache = dict(re.findall(r"^(\w+):\w+=(.*)$", (build_dir / "CMakeCache.txt").read_text(), re.M))
    kind = cache.get("CMAKE_BUILD_TYPE", "")
    flags = f"{cache.get('CMAKE_CXX_FLAGS', '')} {cache.get(f'CMAKE_CXX_FLAGS_{kind.upper()}', '')}".strip()
    return f"{kind} ({flags}), {output(cache.get('CMAKE_CXX_COMPILER', 'c++'), '--version')}"


@functools.cache  # Before results.json changes: afterwards the commit would be called dirty.
def versions(python):
    """{what: version} of Manta and of what the peers run with. `python` is theirs."""
    commit = output("git", "-C", str(BENCH), "describe", "--always", "--dirty", "--abbrev=12")
    packages = ("ray", "torch", "xgboost-cpu", "pyarrow", "pandas", "numpy")
    code = f"from importlib.metadata import version as v; print(' '.join(v(p) for p in {packages!r}))"
    found = dict(zip(packages, output(python, "-c", code).split()))
    python_version = output(python, "--version").split()[-1]
    return {"manta": commit, "python": python_version, **found, "glibc": platform.libc_ver()[1]}


def now():
    return datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
