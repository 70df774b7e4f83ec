#!/usr/bin/env python3
"""Engines, clock and programs read a machine's fields: none asks which generation or machine it is.

What differs between generations is a number, a rule or a feature of Machine (include/soma/neuroncore/machine.hpp). A comparison of
its name or generation would be a rule that no copy of a machine can change.
"""

import re

import house

ASKS = re.compile(
    r"(?:\.|->)\s*generation\b"
    r"|\bmachine\w*(?:\(\))?\s*\.\s*name\s*(?:[!=]=|\.\s*(?:compare|starts_with|ends_with|find|substr|contains|data|begin))"
    r"|[!=]=\s*(?:[\w.]*machine\w*(?:\(\))?\s*\.\s*name)\b"
    r"|\"(?:trn\d|v[234])\""
    r"|\btrn\d\s*\(\s*\)"
)
# The machines themselves, and the processors, whose published runs are those of trn1.
MACHINES = {"include/soma/neuroncore/machine.hpp", "include/soma/neuroncore/processors/model.hpp"}


def main():
    options = house.arguments(__doc__)
    problems, count = [], 0
    for folder in ("include/soma/neuroncore", "include/soma/programs"):
        for path in house.code(options.root, folder):
            name = path.relative_to(options.root).as_posix()
            if name in MACHINES or "/instances/" in name:
                continue
            count += 1
            for number, line in house.lines(path):
                for match in ASKS.finditer(line.split("//")[0]):
                    problems.append(f"{name}:{number}: {match.group(0).strip()}: a rule that differs is a field of Machine")
    house.finish(problems if count > 50 else ["no files"], f"{count} files ask no machine for its name or generation")


if __name__ == "__main__":
    main()
