"""What the house tests share. Standard library only."""

import argparse
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SKIPPED = 77
FUNCTIONS = ".ipp"  # x.hpp declares what impl/x.ipp defines
CODE = (".hpp", FUNCTIONS, ".cpp")


def arguments(description, *names, switches=()):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", type=pathlib.Path, required=True, help="the checkout")
    for name in names:
        parser.add_argument(name, required=True)
    for name in switches:
        parser.add_argument(name, action="store_true")
    return parser.parse_args()


def read(path):
    return path.read_text(encoding="utf-8")


def lines(path):
    """Numbered lines, from 1."""
    return enumerate(read(path).splitlines(), start=1)


def includes(path):
    """(line number, bracket, name) of every #include."""
    for number, line in lines(path):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def code(root, folder):
    """Files of C++ below a folder, sorted."""
    return [path for path in sorted((root / folder).rglob("*")) if path.suffix in CODE]


def headers(root, inl=False):
    """Headers of the library as they are included: soma/base/error.hpp."""
    include = root / "include"
    names = sorted(path.relative_to(include).as_posix() for path in include.rglob("*.hpp"))
    return [name for name in names if inl or not name.endswith("-inl.hpp")]


def finish(problems, summary):
    """Prints all problems; ends the program with 1 if there are any."""
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} problem(s)")
    print(summary)
    sys.exit(0)
