#!/usr/bin/env python3
"""The single headers in the checkout are those that their generator makes, byte for byte."""

import difflib
import pathlib
import subprocess
import sys
import tempfile

import house

PRODUCTS = "single_include/soma"
GENERATOR = "single_include/amalgamate.py"


def main():
    options = house.arguments(__doc__)
    problems, lines = [], 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-B", options.root / GENERATOR, "--output", folder], check=True)
        names = {path.name for path in pathlib.Path(folder).iterdir()}
        names |= {path.name for path in (options.root / PRODUCTS).iterdir()}
        for name in sorted(names):
            given, wanted = (read(pathlib.Path(root) / name) for root in (options.root / PRODUCTS, folder))
            lines += len(wanted.splitlines())
            if given != wanted:
                different = difflib.unified_diff(given.splitlines(), wanted.splitlines(), f"{PRODUCTS}/{name}",
                                                 "freshly generated", lineterm="", n=1)
                problems += list(different)[:40] or ["they differ in line endings"]
                problems.append(f"{PRODUCTS}/{name} is out of date: python3 {GENERATOR}")
    house.finish(problems, f"{', '.join(sorted(names))}: {lines} lines, up to date")


def read(path):
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""


if __name__ == "__main__":
    main()
