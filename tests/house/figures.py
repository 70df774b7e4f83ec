#!/usr/bin/env python3
"""Figures in documents: docs/lab/figures.md lists each section with a command that measures, and when its figures last changed.

  --root CHECKOUT   checks: a command's script or program exists, and the page lists every section that has one
  --write           also writes the page; the day is that of the last commit that changed a row of figures in the section

A section has figures if it names a script of bench/, a program that measures (soma_*), or a script of tests/ that prints
times, and has a row of a table with a number.
"""

import datetime
import pathlib
import re
import subprocess
import sys

import house

PAGE = pathlib.Path("docs/lab/figures.md")
COMMAND = re.compile(r"(?:bash )?(?:bench/\w+\.sh|tests/(?:fresh_machine|first_program)\.sh|tests/house/include_cost\.py)"
                     r"(?: +(?:--?[\w-]+(?:[= ][\w'|./,-]+)?|[A-Z_]+))*|build/release/bin/soma_\w+(?: +(?:'[^'\n]*'|[\w./=*,-])+)*")
NUMBER = re.compile(r"\|\s*\*{0,2}[0-9][0-9.,]*")
CPU = re.compile(r"AMD EPYC|Zen ?[2-5]|Emerald Rapids|Sapphire Rapids|AVX-?512|AVX2|AMX|Cortex\S*")
HEAD = """# When figures were made

Sections of the documents whose figures a command makes. *day*: the last commit that changed one of the section's rows of figures.
`python3 -B tests/house/figures.py --root . --write` writes this page, and the test `house/figures` sees that it is complete and that the
commands exist. Pages about one kind of CPU (`docs/lab/`) say at their beginning on which it was.

| page | section | command | day | CPU |
|---|---|---|---|---|
"""


def sections(path):
    """(title, [(line number, line)]) of a page."""
    found, title, lines, code = [], path.stem, [], False
    for number, line in house.lines(path):
        code ^= line.lstrip().startswith("```")
        if not code and line.startswith("#"):
            found.append((title, lines))
            title, lines = line.lstrip("# ").strip(), []
        else:
            lines.append((number, line))
    return [*found, (title, lines)]


def measured(root):
    """(page, section, command, line numbers of figures, kinds of CPU)"""
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    for path in pages:
        page = path.relative_to(root)
        if page == PAGE or page.name == "everything.md":
            continue
        for title, lines in sections(path):
            figures = [number for number, line in lines if line.startswith("|") and NUMBER.search(line)]
            commands = [match[0].strip() for _, line in lines for match in COMMAND.finditer(line)]
            if figures and commands:
                text = "\n".join(line for _, line in lines)
                yield page, title, max(commands, key=len), figures, ", ".join(dict.fromkeys(CPU.findall(text)))


def day(root, page, numbers):
    """Of the newest of these lines, by git."""
    given = [word for number in numbers for word in ("-L", f"{number},{number}")]
    told = subprocess.run(["git", "-C", root, "blame", "--line-porcelain", *given, "--", page], capture_output=True, text=True, check=True)
    times = [int(line.split()[1]) for line in told.stdout.splitlines() if line.startswith("committer-time ")]
    return datetime.datetime.fromtimestamp(max(times), datetime.timezone.utc).date().isoformat()


def row(page, title, command):
    return f"| {page} | {title.replace('|', '/')} | `{command.replace('|', '/')}` |"


def main():
    options = house.arguments(__doc__, switches=("--write",))
    root, problems = options.root, []
    found = list(measured(root))
    programs = "\n".join(house.read(path) for path in (root / "bench/CMakeLists.txt", root / "examples/CMakeLists.txt"))
    for page, title, command, _, _ in found:
        script = re.search(r"[\w/]+\.(?:sh|py)", command)
        if script and not (root / script[0]).is_file():
            problems.append(f"{page}, {title}: there is no {script[0]}")
        program = re.search(r"soma_\w+", command) if not script else None
        if program and not re.search(rf"\b{program[0]}\b", programs):
            problems.append(f"{page}, {title}: nothing builds {program[0]}")
    if options.write:
        rows = [f"{row(page, title, command)} {day(root, page, numbers)} | {cpu} |\n" for page, title, command, numbers, cpu in found]
        (root / PAGE).write_text(HEAD + "".join(rows), encoding="utf-8")
    listed = house.read(root / PAGE)
    problems += [f"{PAGE} has no row \"{row(*one[:3])}\"; --write makes it" for one in found if row(*one[:3]) not in listed]
    wanted = {row(*one[:3]) for one in found}
    for line in listed.splitlines():
        if line.startswith("| docs/") or line.startswith("| README"):
            if not any(line.startswith(known) for known in wanted):
                problems.append(f"{PAGE} has a row that no page has: {line}")
    if not found:
        problems.append("no section has figures")
    house.finish(problems, f"{len(found)} sections with figures have commands that exist")


if __name__ == "__main__":
    main()
