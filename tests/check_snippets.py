"""Programs shown in docs/ are programs that the tests run.

A block of code after a line `<!-- examples/taxi.cc -->` must be in that file: the same lines in the same order, apart from
indentation, empty lines and comments at the end of a line. A line `...` in the block stands for any number of lines.

Usage: check_snippets.py <root of the repository>. Prints what differs and exits with 1 if something does.
"""

import re
import sys
from pathlib import Path

BLOCK = re.compile(r"^<!-- (examples/\S+) -->\n+```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def lines_of(text):
    """What counts of each line."""
    lines = (re.sub(r"\s//.*", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("//")]


def find(part, lines, start):
    """The place after `part` in `lines`, at `start` or later; none if it is not there."""
    for place in range(start, len(lines) - len(part) + 1):
        if lines[place:place + len(part)] == part:
            return place + len(part)
    return None


def missing_part(block, program):
    """The first line of the first part of `block` that is not in `program`; none if all are."""
    place, lines = 0, lines_of(program)
    for part in re.split(r"^\s*\.\.\.\s*$", block, flags=re.MULTILINE):
        part = lines_of(part)
        place = find(part, lines, place)
        if place is None:
            return part[0]
    return None


def check(root):
    """All differences, as lines of text."""
    differences = []
    for page in sorted((root / "docs").glob("*.md")) + [root / "README.md"]:
        for name, block in BLOCK.findall(page.read_text()):
            first = missing_part(block, (root / name).read_text())
            if first is not None:
                differences.append(f"{page.name}: the lines from '{first}' on are not in {name} as they are shown")
    return differences


if __name__ == "__main__":
    found = check(Path(sys.argv[1]))
    print("\n".join(found))
    sys.exit(1 if found else 0)
