#!/usr/bin/env python3
"""No number of a training comes from the C library's transcendental functions, whose bits differ between systems.

soma has its own: simd/math-inl.hpp for vectors, numeric/portable_math.hpp for single numbers, and numeric/fused.hpp in place
of std::fma. (std::sqrt is exact everywhere.) References of tests take the C library's on purpose. ALLOWED names the other
places, with the reason.
"""

import re

import house

FUNCTIONS = re.compile(r"\bstd::(exp2?|expm1|log|log2|log10|log1p|pow|sin|cos|tan|sinh|cosh|tanh|asin|acos|atan2?|erfc?|cbrt|"
                       r"hypot|tgamma|lgamma|fmaf?)\(")
REFERENCES = ("include/soma/kernels/reference/", "include/soma/testing/", "include/soma/impl/testing.ipp")
ALLOWED = {
    "include/soma/numeric/fused.hpp": "std::fma where it is known to be exact",
    "include/soma/numeric/impl/inspect.ipp": "a figure for people, in decibels",
    "include/soma/neuroncore/processors/impl/functions.ipp": "functions that kernels of processors call by the C library's names",
    "include/soma/neuroncore/instances/impl/collectives.ipp": "predicted times of machines for rent",
    "include/soma/train/curves/impl/canvas.ipp": "round numbers on the axes of a picture",
}


def main():
    options = house.arguments(__doc__)
    problems, used, files = [], set(), 0
    for path in house.code(options.root, "include"):
        name = path.relative_to(options.root).as_posix()
        files += 1
        if name.startswith((*REFERENCES, "include/soma/compat/")):
            continue
        for number, line in house.lines(path):
            found = FUNCTIONS.search(line.split("//")[0])
            if not found:
                continue
            used.add(name)
            if name not in ALLOWED:
                problems.append(f"{name}:{number}: std::{found.group(1)}() depends on the C library: see {__file__.split('/')[-1]}")
    problems += [f"{name} is allowed, and calls none" for name in sorted(set(ALLOWED) - used)]
    house.finish(problems, f"{files} files compute without the C library's functions, {len(ALLOWED)} places aside")


if __name__ == "__main__":
    main()
