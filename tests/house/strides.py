#!/usr/bin/env python3
"""Operators, programs and optimizers read strides of tensors through ops/tensor_rows.hpp only.

A dimension of size 1 keeps whatever stride a larger tensor left it, so `strides()` says nothing of it. Code that reads strides
itself has to remember that; rows_of(), step_of() and for_each_matrix() do. Row-major strides of a shape are not strides of a
tensor: `shape.strides()` is allowed.
"""

import re

import house

FOLDERS = ("ops", "programs", "optim")
# The one place that reads strides.
READERS = {"ops/tensor_rows.hpp", "ops/impl/tensor_rows.ipp"}
# Others, with their reasons.
ALLOWED = {
    "programs/graph/impl/graph_key.ipp": "a key names every number that a program may read; it addresses nothing",
    "programs/graph/impl/graph_words.ipp": "the same, for comparison of ranks",
}
READS = re.compile(r"\bstrides\s*\(\s*\)|\b(?:mutable_)?view<")
OF_SHAPES = re.compile(r"\bshape(?:\(\))?\s*\.\s*strides\s*\(\s*\)")


def main():
    options = house.arguments(__doc__)
    include = options.root / "include" / "soma"
    problems, count, used = [], 0, set()
    for folder in FOLDERS:
        for path in house.code(options.root, f"include/soma/{folder}"):
            name = path.relative_to(include).as_posix()
            count += 1
            for number, line in house.lines(path):
                text = OF_SHAPES.sub("", line.split("//")[0])
                if name in READERS or not READS.search(text):
                    continue
                if name in ALLOWED:
                    used.add(name)
                else:
                    problems.append(f"{name}:{number}: reads strides itself; rows_of() and step_of() know dimensions of size 1")
    problems += [f"{name}: no longer reads strides, take it off the list" for name in sorted(ALLOWED.keys() - used)]
    house.finish(problems if count else ["no files"], f"{count} files leave strides to tensor_rows.hpp")


if __name__ == "__main__":
    main()
