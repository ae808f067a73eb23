"""Every program of ours answers --help and refuses what it does not know.

Usage: check_help.py [--if-built <folder> <name>... --] <program>...

Runs each program twice, in an empty folder: with --help it must print its usage and end with 0; with an option that does
not exist it must say something and end with another code, not by a signal. Neither may leave a file. Of the programs in
the folder after --if-built, only those that exist are run: the benchmarks are not part of every build. Prints what is
wrong and exits with 1 if something is.
"""

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PATIENCE_S = 60


def run(program, argument):
    """(exit code, stdout, stderr, files that are left)"""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home:
        environment = os.environ | {"HOME": home, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([os.path.abspath(program), argument], cwd=folder, env=environment, timeout=PATIENCE_S,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
        return done.returncode, done.stdout[:1000], done.stderr[:1000], os.listdir(folder) + os.listdir(home)


def faults(program):
    """What is wrong with it, as lines of text."""
    found = []
    code, out, errors, files = run(program, "--help")
    if code != 0 or "usage" not in out.lower():
        found.append(f"{program} --help ends with {code} and prints '{out}', not its usage; '{errors}'")
    if files:
        found.append(f"{program} --help leaves {files}")
    code, out, errors, files = run(program, "--no-such-option")
    if code <= 0:
        found.append(f"{program} --no-such-option ends with {code}: {out}{errors}")
    if not errors.strip():
        found.append(f"{program} --no-such-option is refused without a word")
    if files:
        found.append(f"{program} --no-such-option leaves {files}")
    return found


def main(arguments):
    programs = arguments
    if arguments[:1] == ["--if-built"]:
        end = arguments.index("--")
        folder, names = Path(arguments[1]), arguments[2:end]
        programs = arguments[end + 1:] + [str(folder / name) for name in names if (folder / name).exists()]
    if not programs or programs[0].startswith("-"):
        help_wanted = arguments[:1] == ["--help"]
        print(__doc__, file=sys.stdout if help_wanted else sys.stderr)
        return 0 if help_wanted else 2
    with ThreadPoolExecutor(2) as threads:
        found = [fault for each in threads.map(faults, programs) for fault in each]
    print("\n".join(found) or f"{len(programs)} programs answer --help and refuse what they do not know")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
