#!/usr/bin/env python3
"""Documents point at what exists: links, headings, files and programs that they name; pictures that follow from files.

  [text](target)   in every *.md of the checkout: the file is there, and the heading, where the target has a #part.
  `path`           of README.md and docs/: a path of tests/, docs/, include/, bench/, examples/, conan/ or packaging/
                   exists, so that a feature that is removed takes its row of a table along. A header is named by its
                   path below the checkout, include/, include/soma/ or include/soma/compat/.
  bash some.sh     in a block of commands: the script exists. build/release/bin/NAME: a CMakeLists.txt makes NAME.
  lengths          of pages that are to be read in one sitting.
  layers.svg       is what docs/pictures/layers.py draws from the #include lines.

Code in documents is compiled and run by readme.py.
"""

import os
import pathlib
import re
import subprocess
import sys

import house

LEFT_OUT = {".git", "build", "corpus"}
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*$")
SCRIPT = re.compile(r"\bbash +([\w./-]+\.sh)\b")
PROGRAM = re.compile(r"\bbuild/release/bin/([\w-]+)")
PATH = re.compile(r"`((?:tests|docs|include|bench|examples|conan|packaging)/[\w./-]+)`")
HEADER = re.compile(r"`((?:[\w-]+/)+[\w-]+\.(?:hpp|ipp|h))`")
NAMED_FROM = ("", "include", "include/soma", "include/soma/compat")
MOST_LINES = {"README.md": 260, "docs/performance.md": 150, "docs/design.md": 300}


def pages(root):
    found = []
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if name not in LEFT_OUT]  # a build tree is large: do not walk it
        found += [pathlib.Path(folder, name) for name in files if name.endswith(".md")]
    return sorted(found)


def prose(path):
    """(line number, line, inside of a block of code)"""
    code = False
    for number, line in house.lines(path):
        fence = line.lstrip().startswith("```")
        code = code != fence
        yield number, line, code or fence


def anchors(path):
    """The parts of a page that can be linked to, as GitHub names them."""
    found = set()
    for _, line, code in prose(path):
        match = None if code else HEADING.match(line)
        if match:
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match.group(1)).lower()
            name = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            again = 1
            while name in found and f"{name}-{again}" in found:
                again += 1
            found.add(f"{name}-{again}" if name in found else name)
    return found


def check_links(root, path, report):
    for number, line, code in prose(path):
        if code:
            continue
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue  # another server's page
            name, _, part = target.partition("#")
            linked = (path.parent / name).resolve() if name else path
            if not linked.exists():
                report(number, f"no file {target}")
            elif part and linked.suffix == ".md" and part not in anchors(linked):
                report(number, f"{linked.relative_to(root)} has no heading #{part}")


def check_names(root, path, programs, report):
    for number, line, code in prose(path):
        for name in PATH.findall(line):
            if not (root / name).exists():
                report(number, f"no file {name}")
        for name in HEADER.findall(line):
            if not PATH.match(f"`{name}`") and not any((root / part / name).is_file() for part in NAMED_FROM):
                report(number, f"no header {name}")
        for name in SCRIPT.findall(line):
            if not (root / name).is_file():
                report(number, f"no script {name}")
        for name in PROGRAM.findall(line):
            if name not in programs:
                report(number, f"no program {name} in a CMakeLists.txt")


def main():
    options = house.arguments(__doc__)
    root = options.root.resolve()
    programs = set(re.findall(r"[\w-]+", "\n".join(
        house.read(path) for folder in ("examples", "bench", "tests") for path in (root / folder).rglob("CMakeLists.txt"))))
    problems, checked = [], pages(root)
    for path in checked:
        page = path.relative_to(root).as_posix()

        def report(number, message, page=page):
            problems.append(f"{page}:{number}: {message}")

        check_links(root, path, report)
        if page == "README.md" or page.startswith("docs/"):
            check_names(root, path, programs, report)
        lines = len(house.read(path).splitlines())
        if lines > MOST_LINES.get(page, lines):
            problems.append(f"{page}: {lines} lines, at most {MOST_LINES[page]}")
    result = subprocess.run([sys.executable, "-B", root / "docs/pictures/layers.py", "--check"],
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        problems.append(result.stderr.strip())
    house.finish(problems, f"{len(checked)} documents point at what exists")


if __name__ == "__main__":
    main()
