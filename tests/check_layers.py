"""The layer rule: a file in src/manta/<layer> includes only its own layer and lower ones.

Usage: check_layers.py <src/manta>. Prints each include that breaks the rule and exits with 1 if there is one.
"""

import re
import sys
from pathlib import Path

# From the lowest to the highest, as in src/manta/CMakeLists.txt.
LAYERS = ["base", "io", "core", "data", "preprocess", "train", "predict", "tune", "serve", "torch", "xgboost",
          "lightgbm", "rl"]
# Optional to a user, so nothing else may need them.
OPTIONAL = {"torch", "xgboost", "lightgbm"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(manta/[^>]+)>)', re.MULTILINE)


def problem(layer, include):
    """What is wrong with an include of our own in a file of the layer, or None."""
    parts = include.split("/")
    if parts[0] != "manta":
        return "our headers are spelled manta/<layer>/<file>.h, those of others in angle brackets"
    if len(parts) == 2:
        return "an umbrella header, which includes higher layers"
    target = parts[1]
    if target not in LAYERS:
        return f"{target} is no layer"
    if target != layer and target in OPTIONAL:
        return f"{target} is optional, nothing else may include it"
    if LAYERS.index(target) > LAYERS.index(layer):
        return f"{target} is above {layer}"
    return None


def check(root):
    """All breaches below the folder, as lines of text."""
    found = []
    for path in sorted(root.rglob("*")):
        layer = path.relative_to(root).parts[0]
        if path.suffix not in (".h", ".cc") or path.parent == root:
            continue
        if layer not in LAYERS:
            found.append(f"{path}: {layer} is no layer; add it to LAYERS in tests/check_layers.py")
            continue
        text = path.read_text()
        for match in INCLUDE.finditer(text):
            include = match[1] or match[2]
            reason = problem(layer, include)
            if reason:
                line = text.count("\n", 0, match.start(1) if match[1] else match.start(2)) + 1
                found.append(f"{path}:{line}: {include}: {reason}")
    return found


if __name__ == "__main__":
    root = Path(sys.argv[1])
    if not root.is_dir():
        sys.exit(f"{root} is not a folder")
    breaches = check(root)
    print("\n".join(breaches) or "no include breaks the layer rule")
    sys.exit(1 if breaches else 0)
