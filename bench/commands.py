"""How contestants are called: each function gives a Command of contest.py."""

import functools
import os
import shlex
import sys
from pathlib import Path

from contestant import run_to_end

BENCH = Path(__file__).resolve().parent
BREAST_CANCER = BENCH.parent / "examples" / "data" / "breast_cancer.csv"
# Keeps freed memory instead of giving it back to the kernel after each step: see train_bare in taxi_figures.cc.
KEEP_MEMORY = [f"MALLOC_{which}_THRESHOLD_={1 << 30}" for which in ("TRIM", "MMAP")]


@functools.cache
def ray_python():
    return run_to_end([str(BENCH / "setup_ray.sh")], deadline_s=1800, show_stderr=True).strip()


def program(*arguments):
    """Manta's, e.g. program("core_bench", "--flag")."""
    return lambda build: [str(build / "bench" / arguments[0]), *map(str, arguments[1:])]


def script(*arguments):
    """One that the python of the Ray installation runs."""
    return lambda build: [ray_python(), str(BENCH / arguments[0]), *map(str, arguments[1:])]


def on_hosts(hosts, command, options="", cluster=""):
    """One of Manta's, on hosts of its own, with options of the cluster: see on_hosts.cc. `cluster`: "slurm" or "ray",
    if that starts the agents."""
    more = [f"--{cluster}"] if cluster else []
    more += ["--options", options] if options else []
    return lambda build: [str(build / "bench" / "on_hosts"), str(hosts), *more, *command(build)]


def ray_on_hosts(hosts, *arguments):
    """One that the python of the Ray installation runs on the head of a cluster."""
    return lambda build: [str(build / "bench" / "on_hosts"), str(hosts), "--script", *script(*arguments)(build)]


def torch_script(*arguments):
    """The same, with glibc's memory tuned."""
    return lambda build: ["env", *KEEP_MEMORY, *script(*arguments)(build)]


def torchrun(processes, *arguments):
    """The same in several processes that torchrun starts."""
    run = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}")

    def command_line(build):
        python, *rest = script(*arguments)(build)
        return ["env", *KEEP_MEMORY, "OMP_NUM_THREADS=1", python, *run, *rest]

    return command_line


def on_slow_disk(command):
    """With slow_disk.cc."""
    return lambda build: ["env", f"LD_PRELOAD={build / 'bench' / 'libslow_disk.so'}", *command(build)]


def cached(name):
    """A file or folder that outlives the run."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "manta" / "bench" / name


@functools.cache
def made(build, what, source, name):
    """The folder of a model, which workflow_bench makes anew, once in a run."""
    folder = cached(name)
    run_to_end(program("workflow_bench", what, source, folder)(build), deadline_s=300)
    return folder


def with_trees(command, trips, file_option=None):
    """A program or script that gets taxi trips, and a model that was trained on one of their files: its folder, or its
    file as the option of that name."""

    def command_line(build):
        *start, path = taxi(command, trips)(build)
        folder = made(build, "make-trees", sorted(Path(path).glob("*.parquet"))[0], "trees")
        return [*start, path, *([file_option, str(folder / "model.ubj")] if file_option else [str(folder)])]

    return command_line


def loaded(server, what, *options):
    """serve_load.py with a server, a command that gets the folder of the tuned breast cancer model."""

    def command_line(build):
        folder = made(build, "make-served", BREAST_CANCER, "served")
        served = shlex.join([*server(build), str(folder)])
        return [sys.executable, str(BENCH / "serve_load.py"), what, str(folder), *options, "--server", served]

    return command_line


def taxi(command, trips, *options):
    """A program or script with taxi trips as its argument: (rows, rows of a row group) in a file, or (rows, rows of a
    row group, files) in a folder. They are made first if they are missing."""
    rows, row_group, files = (*trips, 1)[:3]

    def make(build, path, rows, seed):
        # Made once: it takes seconds and stays the same.
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            sizes = ("--rows", rows, "--row-group", row_group, "--seed", seed)
            run_to_end(program("training_bench", "make", partial, *sizes)(build), deadline_s=600)
            partial.rename(path)

    def command_line(build):
        if files == 1:
            path = cached(f"taxi_{rows}_{row_group}.parquet")
            make(build, path, rows, seed=2020)
        else:
            path = cached(f"taxi_{rows}_{row_group}_{files}")
            for i in range(files):
                make(build, path / f"{i}.parquet", rows // files, seed=2020 + i)
        return [*command(build), str(path), *map(str, options)]

    return command_line
