#!/usr/bin/env python3
"""The single header in the checkout is the one that its generator makes, byte for byte."""

import difflib
import pathlib
import subprocess
import sys
import tempfile

import house

PRODUCT = "single_include/soma/soma.hpp"
GENERATOR = "single_include/amalgamate.py"


def main():
    options = house.arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        fresh = pathlib.Path(folder) / "soma.hpp"
        subprocess.run([sys.executable, "-B", options.root / GENERATOR, "--output", fresh], check=True)
        wanted = fresh.read_bytes()
    product = options.root / PRODUCT
    given = product.read_bytes() if product.is_file() else b""
    problems = []
    if given != wanted:
        lines = difflib.unified_diff(given.decode("utf-8", "replace").splitlines(), wanted.decode("utf-8").splitlines(),
                                     PRODUCT, "freshly generated", lineterm="", n=1)
        problems = list(lines)[:40] or ["they differ in line endings"]
        problems.append(f"{PRODUCT} is out of date: python3 {GENERATOR}")
    house.finish(problems, f"{PRODUCT}: {len(wanted.splitlines())} lines, up to date")


if __name__ == "__main__":
    main()
