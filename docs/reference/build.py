#!/usr/bin/env python3
"""Builds the reference of the public headers with Doxygen: FOLDER/html/index.html.

    python3 docs/reference/build.py --output FOLDER [--doxygen PROGRAM] [--root CHECKOUT]

It holds the headers that soma/api.hpp, train.hpp, models.hpp and neuroncore.hpp reach, without the kernels (-inl.hpp) and the functions (.ipp).
Warnings of Doxygen are errors. Exit code: 0; 1 after a warning; 77 where there is no Doxygen.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOTS = ("soma/api.hpp", "soma/train.hpp", "soma/models.hpp", "soma/neuroncore.hpp")
INCLUDE = re.compile(r"^\s*#\s*include\s*<(soma/[^>]+)>", re.MULTILINE)
VERSION = re.compile(r"#define SOMA_VERSION_(?:MAJOR|MINOR|PATCH) +(\d+)")
MISSING = 77


def reached(include):
    """The headers that the roots include, directly or not, sorted."""
    found, waiting = set(), list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name in found or name.endswith(("-inl.hpp", ".ipp")):
            continue
        found.add(name)
        waiting += INCLUDE.findall((include / name).read_text(encoding="utf-8"))
    return sorted(found)


def settings(root, output):
    include = root / "include"
    version = ".".join(VERSION.findall((include / "soma/base/version.hpp").read_text(encoding="utf-8")))
    files = [HERE / "pages.dox", *(include / name for name in reached(include))]

    def quoted(paths):
        return " ".join(f'"{path}"' for path in paths)

    return "\n".join([
        f'@INCLUDE = "{HERE / "Doxyfile"}"',
        f"PROJECT_NUMBER = {version}",
        f"INPUT = {quoted(files)}",
        f'OUTPUT_DIRECTORY = "{output}"',
        f'STRIP_FROM_PATH = "{include}"',
        f'STRIP_FROM_INC_PATH = "{include}"',
        f'FILTER_PATTERNS = *.hpp="\\"{sys.executable}\\" -B \\"{HERE / "filter.py"}\\""',
        ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="the folder to write to")
    parser.add_argument("--doxygen", default="doxygen", help="the program")
    parser.add_argument("--root", type=pathlib.Path, default=HERE.parent.parent, help="the checkout")
    options = parser.parse_args()
    if shutil.which(options.doxygen) is None:
        print("SKIPPED: no doxygen (on Debian: apt-get install doxygen)")
        sys.exit(MISSING)
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    file = output / "Doxyfile"
    file.write_text(settings(options.root.resolve(), output), encoding="utf-8")
    if subprocess.run([options.doxygen, file], stdin=subprocess.DEVNULL, check=False).returncode != 0:
        sys.exit("doxygen warned or failed: see the lines above")
    print(f"{len(reached(options.root / 'include'))} headers: {output / 'html/index.html'}")


if __name__ == "__main__":
    main()
