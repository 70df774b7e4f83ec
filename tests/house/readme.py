#!/usr/bin/env python3
"""The code in README.md and docs/*.md is true: it compiles, runs, and prints what the page says. --all: of every page, and not
only of the two that newcomers read first.

  ```cpp    a program (it has `int main`, or begins with `// file: name.cpp`) is built and run; anything else is
            compiled as the body of a function after #include <soma/soma.hpp>. The comment
            <!-- not compiled: reason --> on the line before leaves a block out. One that begins with
            `// name.cpp: kernels for libname.so` (with `, on all processors`), and the next one, which begins with
            `// name_shape.cpp: shapes for libname.so`, become that library, as soma_add_custom_operators() builds it.
  ```c      begins with `/* file: name.c */`: is built as the shared library name.so, where programs after it run.
  ```text   directly after a program: exactly what the program prints.
  <!-- drawn: docs/pictures/NAME.svg by docs/pictures/SCRIPT.py ARGUMENTS -->
            runs `SCRIPT.py OUTPUT ARGUMENTS` where the programs before it ran, and compares OUTPUT with the picture.

What documents point at is checked by documents.py.
"""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import house

FENCE = re.compile(r"^```(\w*)\s*$")
NOT_COMPILED = re.compile(r"<!--\s*not compiled: \S.*-->")
FILE = re.compile(r"^// file: (\S+\.cpp)\s*$", re.MULTILINE)
LIBRARY = re.compile(r"^/\* file: (\S+)\.c \*/$", re.MULTILINE)
KERNELS = re.compile(r"^// (\S+\.cpp): (kernels|shapes) for lib(\w+)\.so(, on all processors)?$", re.MULTILINE)
MAIN = re.compile(r"\bint\s+main\s*\(")
DRAWN = re.compile(r"^<!-- drawn: (docs/pictures/\S+\.svg) by (docs/pictures/\S+\.py) (.*) -->$", re.MULTILINE)
# Not optimised: the kernels are in the library, and the way without it is packaging/include_path's.
FLAGS = ["-std=c++20", "-O0", "-DSOMA_DISPATCH=1", "-pthread"]
PRECOMPILED = ("soma/soma.hpp", "soma/neuroncore.hpp")


class Block:
    def __init__(self, page, number, language, before):
        self.page, self.number, self.language = page, number, language
        self.before = before  # text between the previous block and this one
        self.lines = []

    @property
    def text(self):
        return "".join(line + "\n" for line in self.lines)

    @property
    def place(self):
        return f"{self.page}:{self.number}"


def blocks(page, path):
    found, block, before = [], None, []
    for number, line in house.lines(path):
        fence = FENCE.match(line)
        if block is None and fence:
            block = Block(page, number, fence.group(1), "\n".join(before).strip())
        elif block is not None and line.startswith("```"):
            found.append(block)
            block, before = None, []
        elif block is not None:
            block.lines.append(line)
        else:
            before.append(line)
    return found


class Checker:
    def __init__(self, options):
        self.options = options
        self.work = pathlib.Path(options.work)
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.problems = []
        self.compiled = self.ran = self.left_out = 0
        self.snippets = {}  # by their includes
        self.precompile()

    def precompile(self):
        """Most blocks begin with one of these headers: g++ takes it from here, compiled once. Others read the file as ever."""
        folder = self.work / "precompiled"
        (folder / "soma").mkdir(parents=True)
        for header in PRECOMPILED:
            # For a header that includes it again: g++ looks for the file whose compiled form it has read.
            real = (self.options.root / "include" / header).resolve()
            (folder / header).write_text(f'#include "{real}"\n', encoding="utf-8")
            subprocess.run([self.options.compiler, *FLAGS, "-I", self.options.root / "include", "-x", "c++-header",
                            self.options.root / "include" / header, "-o", folder / f"{header}.gch"],
                           capture_output=True, check=False)

    def compile(self, block, text, *more):
        # A program is compiled under its own name: it may print that.
        folder = self.work / f"block_{self.compiled}"
        folder.mkdir()
        named = FILE.search(text)
        unit = folder / (named.group(1) if named else "block.cpp")
        self.compiled += 1
        unit.write_text(text, encoding="utf-8")
        # g++ takes a compiled header only as a unit's first: what the unit includes anyway is moved there.
        first = next((["-include", header] for header in reversed(PRECOMPILED) if f"#include <{header}>" in text), [])
        result = subprocess.run([self.options.compiler, *FLAGS, "-I", self.work / "precompiled", "-I",
                                 self.options.root / "include", *first, unit, *more],
                                capture_output=True, text=True, check=False)
        if result.returncode != 0 and block is not None:
            self.problems.append(f"{block.place}: does not compile\n{result.stderr[:3000]}")
        return result.returncode == 0

    @property
    def libraries(self):
        """The library, behind the compiled halves of components that a program's headers may need."""
        halves = [pathlib.Path(self.options.library).with_name(f"libsoma_{part}.a") for part in ("models", "text", "io")]
        there = [half for half in halves if half.is_file()]
        return [*there, self.options.library, *(["-lutf8proc", "-lz"] if halves[1] in there else [])]

    def program(self, block, output):
        program = self.work / f"program_{self.compiled}"
        if not self.compile(block, block.text, *self.libraries, "-lhwy", "-o", program):
            return
        self.ran += 1
        result = subprocess.run([program.resolve()], cwd=self.work, stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=300, check=False)
        if result.returncode != 0:
            self.problems.append(f"{block.place}: ends with {result.returncode}\n{result.stderr[:2000]}")
        elif output is not None and result.stdout != output.text:
            self.problems.append(f"{output.place}: the program at line {block.number} prints\n{result.stdout}"
                                 f"and not\n{output.text}")

    def snippet(self, block):
        # Includes and what must stand outside a function come first: the user would put them there.
        top = tuple(line for line in block.text.splitlines() if line.startswith("#include"))
        self.snippets.setdefault(top, []).append(block)

    def compile_snippets(self):
        """Those with the same includes are one unit. Where it fails, each is compiled alone: that tells which it is."""
        for top, group in self.snippets.items():
            alone = len(group) == 1
            if alone or not self.compile(None, self.unit_of(top, group), "-fsyntax-only"):
                for block in group:
                    self.compile(block, self.unit_of(top, [block]), "-fsyntax-only")
            else:
                self.compiled += len(group) - 1

    @staticmethod
    def unit_of(top, group):
        lines = ["#include <soma/soma.hpp>", *top]
        for number, block in enumerate(group):
            inside = [line for line in block.text.splitlines() if not line.startswith("#include")]
            lines += [f"[[maybe_unused]] static void snippet_{number}() {{",
                      f'#line {block.number + 1 + len(top)} "{block.page}"', *inside, "}"]
        return "\n".join([*lines, ""])

    def library(self, block):
        name = LIBRARY.match(block.text)
        if not name:
            self.problems.append(f"{block.place}: begins without /* file: name.c */")
            return
        unit = self.work / f"{name.group(1)}.c"
        unit.write_text(block.text, encoding="utf-8")
        self.compiled += 1
        result = subprocess.run([self.options.compiler, "-x", "c", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1",
                                 "-fvisibility=hidden", "-shared", "-fPIC", "-I", self.options.root / "include", unit,
                                 "-o", unit.with_suffix(".so"), "-lm"], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            self.problems.append(f"{block.place}: does not compile\n{result.stderr[:3000]}")

    def kernels(self, block):
        file, kind, name, everywhere = KERNELS.match(block.text).groups()
        unit = self.work / file
        unit.write_text(block.text, encoding="utf-8")
        if kind == "kernels":
            self.compute = (unit, everywhere)
            return
        compat = self.options.root / "include/soma/compat"
        compiler = [self.options.compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden",
                    "-Wno-unused-parameter", "-I", compat, "-I", self.options.root / "include"]
        tool, library = self.work / f"{name}_tool", self.work / f"lib{name}.so"
        compute, everywhere = self.compute
        self.compiled += 2
        for command in (
                [*compiler, compat / "build_tool.cpp", unit, "-o", tool, "-ldl"],
                [tool.resolve(), "list", "1" if everywhere else "0", self.work.resolve(), compute.resolve()],
                [*compiler, "-shared", self.work / "binding_0.cpp", unit, compat / "carrier.cpp", compat / "printf.cpp",
                 "-o", library],
                [tool.resolve(), "check", library.resolve()]):
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                self.problems.append(f"{block.place}: {command[0]} fails\n{result.stderr[:3000]}")
                return

    def page(self, page, path):
        found = blocks(page, path)
        for index, block in enumerate(found):
            if block.language == "c":
                self.library(block)
            if block.language != "cpp":
                continue
            if NOT_COMPILED.search(block.before.splitlines()[-1] if block.before else ""):
                self.left_out += 1
            elif KERNELS.match(block.text):
                self.kernels(block)
            elif FILE.match(block.text) or MAIN.search(block.text):
                after = found[index + 1] if index + 1 < len(found) else None
                is_output = after is not None and after.language == "text" and not after.before
                self.program(block, after if is_output else None)
            else:
                self.snippet(block)
        for picture, script, arguments in DRAWN.findall(house.read(path)):
            self.drawn(page, picture, script, shlex.split(arguments))

    def drawn(self, page, picture, script, arguments):
        root = self.options.root.resolve()
        present = house.read(root / picture) if (root / picture).is_file() else None
        result = subprocess.run([sys.executable, "-B", root / script, "drawn.svg", *arguments], cwd=self.work,
                                capture_output=True, text=True, check=False)
        if result.returncode != 0:
            self.problems.append(f"{page}: {script} fails\n{result.stderr[:2000]}")
        elif house.read(self.work / "drawn.svg") != present:
            made = (self.work / "drawn.svg").resolve()
            self.problems.append(f"{page}: {picture} is not what its programs give now: copy {made} there")


def main():
    options = house.arguments(__doc__, "--compiler", "--library", "--work", switches=["--all"])
    documents = options.root / "docs"
    pages = [options.root / "README.md", *(sorted(documents.glob("**/*.md")) if options.all else [documents / "getting_started.md"])]
    checker = Checker(options)
    for path in pages:
        if path.is_file():
            checker.page(path.relative_to(options.root).as_posix(), path)
        else:
            checker.problems.append(f"{path.name} does not exist")
    checker.compile_snippets()
    house.finish(checker.problems, f"{checker.compiled} blocks compiled, {checker.ran} of them run, "
                                   f"{checker.left_out} left out with a reason")


if __name__ == "__main__":
    main()
