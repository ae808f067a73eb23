"""What users include: the umbrella headers reach every public header, and no internal one.

Usage: check_surface.py <src/manta>. Prints what breaks the rule and exits with 1 if there is something.
"""

import re
import sys
from pathlib import Path

UMBRELLAS = ["manta.h", "torch.h", "xgboost.h"]
INCLUDE = re.compile(r'^#include "manta/([^"]+)"', re.MULTILINE)


def reachable(root):
    """Each header that the umbrellas include, directly or not, and one that includes it."""
    found = {name: "" for name in UMBRELLAS}
    open_ends = list(UMBRELLAS)
    while open_ends:
        name = open_ends.pop()
        for include in INCLUDE.findall((root / name).read_text()):
            if include not in found:
                found[include] = name
                open_ends.append(include)
    return found


def check(root):
    """All breaches, as lines of text."""
    found = reachable(root)
    breaches = [f"{name} is internal, but users include it through {by}"
                for name, by in sorted(found.items()) if name.endswith("_internal.h")]
    public = {str(path.relative_to(root)) for path in root.rglob("*.h") if not path.name.endswith("_internal.h")}
    breaches += [f"{name} is installed, but neither umbrella includes it: call it {name[:-2]}_internal.h"
                 for name in sorted(public - found.keys())]
    return breaches


if __name__ == "__main__":
    root = Path(sys.argv[1])
    if not (root / UMBRELLAS[0]).is_file():
        sys.exit(f"{root} has no {UMBRELLAS[0]}")
    breaches = check(root)
    for breach in breaches:
        print(breach)
    sys.exit(1 if breaches else 0)
