#!/usr/bin/env python3
"""Writes the single headers single_include/soma/*.hpp from include/soma.

    python3 single_include/amalgamate.py [--root CHECKOUT] [--output FOLDER]

soma.hpp holds what computes and learns, neuroncore.hpp what comes on top with the accelerator's model: it needs soma.hpp
beside it. train.hpp only includes soma.hpp. api.hpp is the first part of soma.hpp, for the units of a program that hold
no kernels: both write it under one guard, so a unit may include both, in any order.

Rules, all of them deterministic:
  * <soma/...> is replaced by the file's text where it is first used; later uses disappear. Conditional text stays
    under its condition: a file used first inside a branch is written inside it. A file that is used in one branch
    and needed outside it would be lost to the other, so that is an error (as is a second use in another branch).
  * Standard and other foreign includes move to the top, sorted, each once; Highway's stay where they are, because
    they must come after the configuration and only in the static branch.
  * `#pragma once` of the parts goes; toggle guards of -inl files stay.
  * An include that moves must not depend on a condition, so a foreign include inside #if is left in place.
"""

import argparse
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]\s*(//.*)?$')
OPEN = re.compile(r"^\s*#\s*if(def|ndef)?\b")
MIDDLE = re.compile(r"^\s*#\s*(else|elif)\b")
CLOSE = re.compile(r"^\s*#\s*endif\b")
PRAGMA_ONCE = re.compile(r"^\s*#\s*pragma\s+once\b")
REGION_OPEN = re.compile(r"^\s*HWY_BEFORE_NAMESPACE\b")
REGION_CLOSE = re.compile(r"^\s*HWY_AFTER_NAMESPACE\b")
TOGGLE = re.compile(r"\bHWY_TARGET_TOGGLE\b")  # the guard of an -inl file: open wherever the file is used
VERSION = re.compile(r"#define SOMA_VERSION_(MAJOR|MINOR|PATCH) +(\d+)")
# The interface alone: the first part of soma.hpp, and a file of its own.
INTERFACE = "soma/api.hpp"
GUARD = "SOMA_SINGLE_API"
# What goes into which file, in this order, and which files it needs beside it: a file leaves out what those before it
# hold, and needs no file that it does not name. Of the roots of soma.hpp the last has conditional parts that use files
# of the others.
PRODUCTS = (
    ("soma.hpp",
     (INTERFACE, "soma/train.hpp", "soma/train/console_progress.hpp", "soma/data/prefetch.hpp", "soma/soma.hpp"), (),
     "<soma/soma.hpp> and <soma/train.hpp> in one file"),
    ("nn.hpp", ("soma/nn.hpp",), ("soma.hpp",), "<soma/nn.hpp> in one file, on top of the single soma.hpp"),
    ("neuroncore.hpp", ("soma/neuroncore.hpp",), ("soma.hpp",),
     "<soma/neuroncore.hpp> in one file, on top of the single soma.hpp"),
    ("sparse.hpp", ("soma/sparse.hpp",), ("soma.hpp", "neuroncore.hpp"),
     "<soma/sparse.hpp> in one file, on top of the single soma.hpp and neuroncore.hpp"),
)


class Amalgamation:
    def __init__(self, include):
        self.include = include
        self.lines = []
        self.hoisted = set()
        self.written = {}  # header -> the conditions it was written under
        self.used = set()  # headers of the product at hand
        self.conditions = []

    def error(self, header, number, message):
        sys.exit(f"amalgamate: include/{header}:{number}: {message}")

    def expand(self, header, user, number):
        self.used.add(header)
        now = tuple(condition for condition in self.conditions if not TOGGLE.search(condition))
        if header in self.written:
            at = self.written[header]
            if now[:len(at)] != at:
                self.error(user, number, f"<{header}> is already written, but under another condition "
                                         f"({' / '.join(at)}); include it before the #if")
            return
        path = self.include / header
        if not path.is_file():
            self.error(user, number, f"<{header}> does not exist")
        self.written[header] = now
        self.text(header, path.read_text(encoding="utf-8"))

    def text(self, header, source):
        outside = len(self.conditions)
        guard = 1 if header.endswith("-inl.hpp") else 0
        region = False
        self.lines.append(f"// ---- {header}")
        for number, line in enumerate(source.splitlines(), start=1):
            if PRAGMA_ONCE.match(line):
                continue
            region = (region or bool(REGION_OPEN.match(line))) and not REGION_CLOSE.match(line)
            match = INCLUDE.match(line)
            if not match:
                self.track(line, header, number, outside)
                self.lines.append(line.rstrip())
                continue
            if region:
                self.error(header, number, "an #include between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE")
            self.one_include(header, number, line, match, len(self.conditions) - outside - guard)
        if len(self.conditions) != outside:
            self.error(header, number, "an #if without #endif")

    def track(self, line, header, number, outside):
        if OPEN.match(line):
            self.conditions.append(line.strip())
        elif MIDDLE.match(line):
            self.conditions[-1] = "not " + self.conditions[-1]
        elif CLOSE.match(line):
            if len(self.conditions) <= outside:
                self.error(header, number, "an #endif without #if")
            self.conditions.pop()

    def one_include(self, header, number, line, match, depth):
        kind, name = match.group(1), match.group(2)
        if name.startswith("soma/"):
            if kind == '"':
                self.error(header, number, f'write <{name}>, not "{name}"')
            self.expand(name, header, number)
        elif kind == '"':
            self.error(header, number, f'"{name}" cannot be found from the single header')
        elif name.startswith("hwy/") or depth > 0:
            self.lines.append(line.rstrip())
        else:
            self.hoisted.add(name)


def squeeze(lines):
    """At most one empty line in a row."""
    result = []
    for line in lines:
        if line or (result and result[-1]):
            result.append(line)
    return result


def product(version, what, needed, work):
    """The text of one file from what was collected for it."""
    banner = [
        f"// soma {version['MAJOR']}.{version['MINOR']}.{version['PATCH']}: {what}.",
        "// SPDX-License-Identifier: Apache-2.0",
        "// Generated by amalgamate.py: do not edit.",
        "//",
        "// In a unit that uses Highway's foreach_target.h itself, include this after it, or use the split headers.",
        "#pragma once",
        "",
    ]
    foreign = [f"#include <{header}>" for header in sorted(work.hoisted)]
    return "\n".join(banner + needed + foreign + [""] + squeeze(work.lines)).rstrip("\n") + "\n"


def amalgamate(root):
    """The text of each product by name."""
    include = root / "include"
    version = dict(VERSION.findall((include / "soma/base/version.hpp").read_text(encoding="utf-8")))
    work = Amalgamation(include)
    texts = {}
    holder = {}  # header -> the product that holds it
    for name, roots, needs, what in PRODUCTS:
        needed = [f"#include <soma/{earlier}>" for earlier in needs]
        work.lines, work.hoisted, work.used = [], set(), set()
        for root_header in roots:
            work.expand(root_header, root_header, 0)
            if root_header == INTERFACE:
                work.lines = [f"#ifndef {GUARD}", f"#define {GUARD}", *work.lines, f"#endif  // {GUARD}"]
                texts["api.hpp"] = product(version, "<soma/api.hpp> in one file", [], work)
        for header in sorted(work.used):
            if holder.setdefault(header, name) not in (name, *needs):
                sys.exit(f"amalgamate: {name} uses <{header}>, which {holder[header]} holds: it needs that file")
        texts[name] = product(version, what, needed, work)
    # Programs that were written for the folder include <soma/train.hpp> as well.
    texts["train.hpp"] = "\n".join([
        f"// soma {version['MAJOR']}.{version['MINOR']}.{version['PATCH']}: the trainer is in the single soma.hpp.",
        "// SPDX-License-Identifier: Apache-2.0",
        "// Generated by amalgamate.py: do not edit.",
        "#pragma once",
        "",
        "#include <soma/soma.hpp>",
        ""])
    return texts


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Writes the single headers.")
    parser.add_argument("--root", type=pathlib.Path, default=here.parent, help="the checkout")
    parser.add_argument("--output", type=pathlib.Path, default=here / "soma", help="the folder they go to")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for name, text in amalgamate(options.root).items():
        with open(options.output / name, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)


if __name__ == "__main__":
    main()
