#!/usr/bin/env python3
"""Examples and documents use public names only: none writes `detail::` or has a namespace `detail`.

Users copy both, so a name that an example needs is public, in soma and in other libraries.
"""

import re

import house

CODE = (".hpp", ".cpp", ".c")
INTERNAL = re.compile(r"\bdetail\s*::|\bnamespace\s+(?:\w+::)*detail\b")


def sources(root):
    yield from (path for path in sorted((root / "examples").rglob("*")) if path.suffix in CODE)
    yield from sorted((root / "docs").glob("*.md"))
    yield from sorted(root.glob("*/README.md"))
    yield root / "README.md"


def main():
    options = house.arguments(__doc__)
    problems, count = [], 0
    for path in sources(options.root):
        count += 1
        for number, line in house.lines(path):
            if INTERNAL.search(line):
                problems.append(f"{path.relative_to(options.root)}:{number}: an internal name: {line.strip()}")
    house.finish(problems if count else ["no examples, no documents"], f"{count} files use public names")


if __name__ == "__main__":
    main()
