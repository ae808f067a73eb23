"""Compiles a snippet and compares with its first line: `// expect: <text that the compiler must print while failing>`,
or `// expect-ok`. Usage: check.py <compile_commands.json> <snippet>
"""

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
    first_line = snippet.read_text().splitlines()[0]
    command, directory = compile_command(database, snippet)
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120)
    if first_line == "// expect-ok":
        if done.returncode != 0:
            return f"{snippet} must compile, but the compiler said:\n{done.stderr}"
    elif first_line.startswith("// expect: "):
        expected = first_line.removeprefix("// expect: ").strip()
        if done.returncode == 0:
            return f"{snippet} compiles, but must fail with: {expected}"
        if expected not in done.stderr:
            return f"{snippet} fails without saying: {expected}\n{done.stderr}"
    else:
        return f"{snippet}: the first line must be '// expect: <text>' or '// expect-ok' (is: {first_line})"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
