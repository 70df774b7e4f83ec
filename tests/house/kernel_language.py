#!/usr/bin/env python3
"""The tables of docs/neuroncore.md "From the public kernel language" name what exists.

  left    every instruction of include/soma/neuroncore/order/instruction_table.hpp has a row, and no other has one
  right   core.ENGINE.NAME and core.NAME are functions of the engine or the core, Tile:: and HbmView:: of these classes,
          Alu::, Function:: and Scatter:: are values, nc::NAME is declared in a header, and a path is a file.
          The call that instruction_table.hpp has for an instruction is in its row.
"""

import re

import house

FOLDER = "include/soma/neuroncore"
HEADING = "## From the public kernel language"
CODE = re.compile(r"`([^`]+)`")
ENGINES = {engine: ("engines/" + engine + "_engine.hpp",) for engine in ("tensor", "vector", "scalar", "gpsimd")}
# sbuf and psum are members of the core that have a function each.
PLACES = {**ENGINES, "dma": ("memory/dma.hpp",), "sbuf": ("core.hpp",), "psum": ("core.hpp",)}
CLASSES = {"Tile": "memory/tile.hpp", "HbmView": "memory/hbm.hpp", "LogicalCore": "logical_core.hpp"}
VALUES = {"Alu": "engines/engine_kernels.hpp", "Function": "engines/engine_kernels.hpp", "Scatter": "memory/dma.hpp"}


def rows(root):
    """(line number, left cell, right cell) of both tables."""
    inside = False
    for number, line in house.lines(root / "docs/neuroncore.md"):
        if line.startswith("## "):
            inside = line == HEADING
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if inside and len(cells) == 2 and not cells[0].startswith("---"):
            yield number, cells[0], cells[1]


def instructions(root):
    """The vendor's names, and the calls of each."""
    found = {}
    text = house.read(root / FOLDER / "order/instruction_table.hpp")
    for names, call in re.findall(r'\{\s*"([\w, ]+)",\s*"[\w, ]*",\s*"([\w., ]*)"', text):
        for name in names.split(", "):
            found.setdefault(name, set()).update(filter(None, call.split(", ")))
    return found


class Declared:
    def __init__(self, root):
        self.root = root
        self.text = {}
        files = [*house.code(root, FOLDER), root / "include/soma/neuroncore_clock.hpp"]
        self.all = "\n".join(re.sub(r"//.*", "", house.read(path)) for path in files)

    def header(self, name):
        if name not in self.text:
            self.text[name] = re.sub(r"//.*", "", house.read(self.root / FOLDER / name))
        return self.text[name]

    def function(self, header, name):
        return re.search(rf"\b{name}\(", self.header(header)) is not None

    def value(self, enum, name):
        body = re.search(rf"enum class {enum}\b[^{{]*\{{([^}}]*)\}}", self.header(VALUES[enum]))
        return body is not None and re.search(rf"\b{name}\b", body.group(1)) is not None

    def has(self, code):
        """True for a name of the vendor's language, which is a word."""
        if match := re.fullmatch(r"core\.(\w+)\.(\w+)", code):
            place, name = match.groups()
            return place in PLACES and any(self.function(header, name) for header in PLACES[place])
        if match := re.fullmatch(r"core\.(\w+)", code):
            return self.function("core.hpp", match.group(1))
        if match := re.fullmatch(r"nc::(\w+)", code):
            return re.search(rf"\b(?:struct|class) {match.group(1)}\b|\b{match.group(1)}\(", self.all) is not None
        if match := re.fullmatch(r"(\w+)::(\w+)", code):
            scope, name = match.groups()
            if scope in VALUES:
                return self.value(scope, name)
            return scope in CLASSES and self.function(CLASSES[scope], name)
        if "/" in code:
            return (self.root / code).is_file()
        return re.fullmatch(r"\w+", code) is not None


def main():
    root = house.arguments(__doc__).root.resolve()
    declared, wanted = Declared(root), instructions(root)
    problems, seen, calls, table = [], {}, 0, ""
    for number, left, right in rows(root):
        if left in ("instruction", "language"):
            table = left
            continue
        names = CODE.findall(left)
        codes = CODE.findall(right)
        if not names:
            problems.append(f"docs/neuroncore.md:{number}: no name of the language")
        if table == "instruction":
            for name in names:
                if name not in wanted:
                    problems.append(f"docs/neuroncore.md:{number}: instruction_table.hpp has no {name}")
                if name in seen:
                    problems.append(f"docs/neuroncore.md:{number}: {name} is in line {seen[name]}, too")
                seen[name] = number
                for call in sorted(wanted.get(name, set()) - set(codes)):
                    problems.append(f"docs/neuroncore.md:{number}: {name} is {call}")
        for code in codes:
            calls += 1
            if not declared.has(code):
                problems.append(f"docs/neuroncore.md:{number}: no {code}")
    for name in sorted(set(wanted) - set(seen)):
        problems.append(f"docs/neuroncore.md: {name} has no row")
    house.finish(problems, f"{len(seen)} instructions have rows, {calls} calls exist")


if __name__ == "__main__":
    main()
