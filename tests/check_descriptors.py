"""No descriptor of ours reaches a program that another thread starts: each is made with CLOEXEC.

Usage: check_descriptors.py <folder of sources>. Looks at every call of the C library that makes a descriptor, outside of
tests. Prints those without CLOEXEC and exits with 1 if there are any.
"""

import re
import sys
from pathlib import Path

CALL = re.compile(r"(?<![\w>])::(open|openat|socket|socketpair|accept|accept4|pipe|pipe2|dup|creat|memfd_create|eventfd|"
                  r"timerfd_create|epoll_create1?|inotify_init1?|signalfd|mkstemp|mkostemp)\(")
OF_TESTS = {"running_internal.h"}


def arguments_from(text, begin):
    """What is between the parenthesis before `begin` and the one that closes it."""
    depth = 1
    for end in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            return text[begin:end]
    return text[begin:]


def faults(path):
    """Places and calls, as lines of text."""
    text = path.read_text()
    for call in CALL.finditer(text):
        arguments = arguments_from(text, call.end())
        if "CLOEXEC" not in arguments:
            line = text.count("\n", 0, call.start()) + 1
            yield f"{path}:{line}: {call.group(0)}{' '.join(arguments.split())}) has no CLOEXEC"


def main(root):
    """The exit code."""
    sources = [path for path in sorted(root.rglob("*.cc")) + sorted(root.rglob("*.h"))
               if not path.name.endswith("_test.cc") and path.name not in OF_TESTS]
    found = [fault for path in sources for fault in faults(path)]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
