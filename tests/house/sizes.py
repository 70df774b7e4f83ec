#!/usr/bin/env python3
"""Sizes that a reader can take in: files of at most 400 lines, 100 columns in C++, folders of at most 25 files.

Documents, and the corpora that fuzzing collects, are left out.
"""

import collections

import house

FOLDERS = ("include", "tests", "bench", "examples", "cmake", "conan", "fuzz")
MOST_LINES = 400
MOST_COLUMNS = 100
MOST_FILES = 25
TABLE = ".inc"  # reference values written by a script: nobody reads them
LEFT_OUT = {"__pycache__", "corpus"}


def main():
    options = house.arguments(__doc__)
    problems, count, longest, files = [], 0, (0, ""), collections.Counter()
    for folder in FOLDERS:
        for path in sorted((options.root / folder).rglob("*")):
            if not path.is_file() or LEFT_OUT.intersection(path.parts):
                continue
            name = path.relative_to(options.root)
            files[name.parent] += 1
            try:
                text = house.read(path).splitlines()
            except UnicodeDecodeError:
                continue  # not text
            if path.suffix == TABLE:
                continue
            count += 1
            longest = max(longest, (len(text), str(name)))
            if len(text) > MOST_LINES:
                problems.append(f"{name}: {len(text)} lines, at most {MOST_LINES}: split it by concept")
            if path.suffix in (".hpp", ".cpp"):
                problems += [f"{name}:{number}: {len(line)} columns, at most {MOST_COLUMNS}"
                             for number, line in enumerate(text, start=1) if len(line) > MOST_COLUMNS]
    problems += [f"{folder}: {number} files, at most {MOST_FILES}: make sub-folders by what a reader looks for"
                 for folder, number in files.items() if number > MOST_FILES]
    house.finish(problems, f"{count} files, the longest {longest[1]} with {longest[0]} lines")


if __name__ == "__main__":
    main()
