"""Compiles a snippet and compares with its first lines: `// expect: <text that the compiler must print while failing>`,
one or several, each to be printed as an error of its own; or `// expect-ok`.
Usage: check.py <compile_commands.json> <snippet>
"""

import itertools
import json
import shlex
import subprocess
import sys
from pathlib import Path


def compile_command(database, snippet):
    """The command line of the control snippet beside it, with the source replaced and nothing written."""
    control = snippet.parent / "control.cc"
    entry = next(entry for entry in json.loads(database.read_text()) if Path(entry["file"]) == control)
    words = iter(shlex.split(entry["command"]))
    command = []
    for word in words:
        if word == "-o":
            next(words)
        elif word not in ("-c", str(control)):
            command.append(word)
    return command + ["-fsyntax-only", "-fdiagnostics-color=never", str(snippet)], entry["directory"]


def main(database, snippet):
    lines = snippet.read_text().splitlines()
    expected = [line.removeprefix("// expect: ").strip()
                for line in itertools.takewhile(lambda line: line.startswith("// expect: "), lines)]
    if not expected and lines[0] != "// expect-ok":
        return f"{snippet}: the first line must be '// expect: <text>' or '// expect-ok' (is: {lines[0]})"
    command, directory = compile_command(database, snippet)
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120)
    if not expected:
        if done.returncode != 0:
            return f"{snippet} must compile, but the compiler said:\n{done.stderr}"
        return None
    if done.returncode == 0:
        return f"{snippet} compiles, but must fail with: {expected[0]}"
    for text in set(expected):
        times = sum(text in line for line in done.stderr.splitlines() if "error: " in line)
        if times < expected.count(text):
            return f"{snippet}: {times} instead of {expected.count(text)} errors say: {text}\n{done.stderr}"
    return None


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
