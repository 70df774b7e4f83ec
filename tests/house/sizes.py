#!/usr/bin/env python3
"""Sizes that a reader can take in: files of at most 400 lines, 100 columns in C++, folders of at most 25 files.

Lines and files are guidance: more of them are a warning, and above 600 lines an error, unless LONGER gives the reason.
A folder impl/ counts apart from the one that it is in. Documents, and the corpora that fuzzing collects, are left out.
"""

import collections

import house

FOLDERS = ("include", "tests", "bench", "examples", "cmake", "conan", "fuzz")
LINES = 400
MOST_LINES = 600
LONGER = {}  # file: why it is better in one piece
MOST_COLUMNS = 100
FILES = 25
TABLE = ".inc"  # reference values written by a script: nobody reads them
LEFT_OUT = {"__pycache__", "corpus"}


def main():
    options = house.arguments(__doc__)
    problems, warnings, count, longest, files = [], [], 0, (0, ""), collections.Counter()
    present = {}
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
            present[name.as_posix()] = len(text)
            if len(text) > MOST_LINES and name.as_posix() not in LONGER:
                problems.append(f"{name}: {len(text)} lines, at most {MOST_LINES}: split it by concept")
            elif len(text) > LINES:
                warnings.append(f"warning: {name}: {len(text)} lines; a reader takes in {LINES}")
            if path.suffix in house.CODE:
                problems += [f"{name}:{number}: {len(line)} columns, at most {MOST_COLUMNS}"
                             for number, line in enumerate(text, start=1) if len(line) > MOST_COLUMNS]
    warnings += [f"warning: {folder}: {number} files; a reader takes in {FILES}: make sub-folders by what one looks for"
                 for folder, number in files.items() if number > FILES]
    problems += [f"tests/house/sizes.py: {name} needs no exception"
                 for name in LONGER if present.get(name, 0) <= MOST_LINES]
    if warnings:
        print("\n".join(warnings))
    house.finish(problems, f"{count} files, the longest {longest[1]} with {longest[0]} lines")


if __name__ == "__main__":
    main()
