#!/usr/bin/env python3
"""Writes headers of include/soma as one file each.

    python3 single_include/amalgamate.py                                   the two that are kept: single_include/soma/*.hpp
    python3 single_include/amalgamate.py soma/nn.hpp -o FILE               any header, on top of the single soma.hpp
    python3 single_include/amalgamate.py soma/neuroncore.hpp soma/sparse.hpp -o FILE      several in one file

soma.hpp holds <soma/soma.hpp> and <soma/train.hpp>, with a table of all kernels and operators. api.hpp is the first part of
soma.hpp, for the units of a program that hold no kernels: both write it under one guard, so a unit may include both, in any
order. A file on request includes <soma/soma.hpp> and leaves out what that holds. Two such files in one unit would repeat what
both need: make one of them.

Rules, all of them deterministic:
  * <soma/...> is replaced by the file's text where it is first used; later uses disappear. Conditional text stays
    under its condition: a file used first inside a branch is written inside it. A file that is used in one branch
    and needed outside it would be lost to the other, so that is an error (as is a second use in another branch).
  * Functions, which stand in impl/*.ipp, come after all declarations under one #ifndef SOMA_DISPATCH, each file after
    those that it includes, behind the headers that only they need.
  * Standard and other foreign includes move to the top, sorted, each once; those of functions to the top of their
    part. Highway's stay where they are, because they must come after the configuration and only in the static branch.
  * `#pragma once` of the parts goes; toggle guards of -inl files stay.
  * Where a text asks for SOMA_WHOLE_TABLE, the answer is yes.
  * An include that moves must not depend on a condition, so a foreign include inside #if is left in place.
"""

import argparse
import contextlib
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
WHOLE_TABLE = re.compile(r"^#if SOMA_WHOLE_TABLE$")
VERSION = re.compile(r"#define SOMA_VERSION_(MAJOR|MINOR|PATCH) +(\d+)")
# The end of a header whose functions stand in files of their own.
FUNCTIONS = re.compile(r"\n*^#ifndef SOMA_DISPATCH\n((?:#include <soma/[^>]+\.ipp>\n)+)#endif[^\n]*\n*\Z", re.MULTILINE)
FUNCTION_FILE = re.compile(r"<(soma/[^>]+\.ipp)>")
HEADER_ONLY = "#ifndef SOMA_DISPATCH"
WITH_LIBRARY = "#ifdef SOMA_DISPATCH"
OPPOSITE = {"not " + HEADER_ONLY: WITH_LIBRARY, "not " + WITH_LIBRARY: HEADER_ONLY}
# The interface alone: the first part of soma.hpp, and a file of its own.
INTERFACE = "soma/api.hpp"
GUARD = "SOMA_SINGLE_API"
# Of the roots of soma.hpp the last has conditional parts that use files of the others.
ROOTS = ("soma/train.hpp", "soma/train/console_progress.hpp", "soma/data/prefetch.hpp", "soma/soma.hpp")


class Amalgamation:
    def __init__(self, include):
        self.include = include
        self.lines = []
        self.hoisted = set()
        self.written = {}  # header -> the conditions it was written under
        self.conditions = []
        self.waiting = []  # files of functions that are not written yet
        self.behind = set()  # those that are, or are about to be
        self.passed = set()  # headers whose files of functions are in their order
        self.needed = set()  # headers that declarations of any part need

    def error(self, header, number, message):
        sys.exit(f"amalgamate: include/{header}:{number}: {message}")

    def source(self, header, user, number):
        """The text of a file, and the files of its functions."""
        path = self.include / header
        if not path.is_file():
            self.error(user, number, f"<{header}> does not exist")
        source = with_whole_table(path.read_text(encoding="utf-8"))
        functions = FUNCTIONS.search(source)
        if not functions:
            return source, []
        return source[:functions.start()] + "\n", FUNCTION_FILE.findall(functions.group(1))

    def now(self):
        return tuple(OPPOSITE.get(condition, condition) for condition in self.conditions if not TOGGLE.search(condition))

    @contextlib.contextmanager
    def elsewhere(self, lines, hoisted, conditions):
        before = self.lines, self.hoisted, self.conditions
        self.lines, self.hoisted, self.conditions = lines, hoisted, conditions
        yield
        self.lines, self.hoisted, self.conditions = before

    def expand(self, header, user, number):
        now = self.now()
        source, functions = self.source(header, user, number)
        if header in self.written:
            at = self.written[header]
            if now[:len(at)] == at:
                return
            # The functions of a file before this one needed it, and were alone to do so.
            if at != (HEADER_ONLY,) or now not in ((), (WITH_LIBRARY,)):
                self.error(user, number, f"<{header}> is already written, but under another condition "
                                         f"({' / '.join(at)}); include it before the #if")
            self.written[header] = ()
            with self.elsewhere(self.lines, self.hoisted, [WITH_LIBRARY]):
                self.lines.append(WITH_LIBRARY)
                self.text(header, source)
                self.lines.append("#endif")
            return
        self.written[header] = now
        if functions and now[:1] != (WITH_LIBRARY,):  # there, the library has them
            if now not in ((), (HEADER_ONLY,)):
                self.error(user, number, f"<{header}> has functions in a file of their own: include it before the #if")
            self.waiting += functions
        self.text(header, source)

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
            self.conditions.append(line.split("//")[0].strip())
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
            if not name.endswith(".ipp"):
                self.expand(name, header, number)
            elif not header.endswith(".ipp"):
                self.error(header, number, f"<{name}> belongs at the end of the header, alone under {HEADER_ONLY}")
        elif kind == '"':
            self.error(header, number, f'"{name}" cannot be found from the single header')
        elif name.startswith("hwy/") or depth > 0:
            self.lines.append(line.rstrip())
        else:
            self.hoisted.add(name)

    def functions(self):
        """Writes the functions of the headers so far."""
        headers, order, hoisted = [], [], set()

        def header(name, user):
            """Writes a header and the functions of all that it reads, unless they are there."""
            if name in self.passed:
                return
            self.passed.add(name)
            source, functions = self.source(name, user, 0)
            for used in unconditional(source):
                header(used, name)
            if name not in self.written and name in self.needed:
                self.expand(name, user, 0)
            elif name not in self.written:
                with self.elsewhere(headers, hoisted, [HEADER_ONLY]):
                    self.expand(name, user, 0)
            for file in functions if self.written[name][:1] != (WITH_LIBRARY,) else ():
                one_file(file, name)

        def one_file(name, user):
            if name in self.behind:
                return
            self.behind.add(name)
            for used in unconditional(self.source(name, user, 0)[0]):
                (one_file if used.endswith(".ipp") else header)(used, name)
            order.append(name)

        while self.waiting:
            one_file(self.waiting.pop(0), INTERFACE)
        if not order:
            return
        text = []
        with self.elsewhere(text, hoisted, [HEADER_ONLY]):
            for name in order:
                self.text(name, self.source(name, name, 0)[0])
        self.lines.append(HEADER_ONLY)
        self.lines += [f"#include <{name}>" for name in sorted(hoisted - self.hoisted)]
        self.lines += headers + text + [f"#endif  // {HEADER_ONLY.replace('#ifndef ', 'not ')}"]


def with_whole_table(source):
    """The text as a unit with a table of all kernels and operators reads it (base/config.hpp): a unit of the single header
    is one, because its parts cannot come in the order that tables of what is used need."""
    kept, depth, branch = [], 0, None  # branch: the depth of the #if that is resolved
    keep = True
    for line in source.splitlines():
        depth += 1 if OPEN.match(line) else 0
        if branch is None and WHOLE_TABLE.match(line):
            branch = depth
        elif branch == depth and MIDDLE.match(line):
            keep = False
        elif branch == depth and CLOSE.match(line):
            branch, keep = None, True
        elif keep:
            kept.append(line)
        depth -= 1 if CLOSE.match(line) else 0
    return "\n".join(kept) + "\n"


def unconditional(source):
    """The files of soma that a text includes outside of every #if, and of an -inl file's guard."""
    depth = 0
    for line in source.splitlines():
        match = INCLUDE.match(line)
        depth += 1 if OPEN.match(line) else -1 if CLOSE.match(line) else 0
        if match and depth == 0 and match.group(2).startswith("soma/"):
            yield match.group(2)


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
        f"// soma {version}: {what}.",
        "// SPDX-License-Identifier: Apache-2.0",
        "// Generated by amalgamate.py: do not edit.",
        "//",
        "// In a unit that uses Highway's foreach_target.h itself, include this after it, or use the split headers.",
        "#pragma once",
        "",
    ]
    foreign = [f"#include <{header}>" for header in sorted(work.hoisted)]
    return "\n".join(banner + needed + foreign + [""] + squeeze(work.lines)).rstrip("\n") + "\n"


def amalgamate(root, asked=()):
    """The text of each kept file by name, and the text of a file with the headers that were asked for."""
    include = root / "include"
    numbers = dict(VERSION.findall((include / "soma/base/version.hpp").read_text(encoding="utf-8")))
    version = ".".join(numbers[part] for part in ("MAJOR", "MINOR", "PATCH"))
    present = [header for header in (INTERFACE, *ROOTS) if header == INTERFACE or (include / header).is_file()]
    declared = Amalgamation(include)
    for header in present:
        declared.expand(header, header, 0)
    work = Amalgamation(include)
    work.needed = {header for header, at in declared.written.items() if at[:1] != (HEADER_ONLY,)}
    work.expand(INTERFACE, INTERFACE, 0)
    work.functions()
    work.lines = [f"#ifndef {GUARD}", f"#define {GUARD}", *work.lines, f"#endif  // {GUARD}"]
    texts = {"api.hpp": product(version, "<soma/api.hpp> in one file", [], work)}
    for header in present[1:]:
        work.expand(header, header, 0)
    work.functions()
    texts["soma.hpp"] = product(version, "<soma/soma.hpp> and <soma/train.hpp> in one file", [], work)
    if not asked:
        return texts, None
    work.lines, work.hoisted = [], set()
    for header in asked:
        work.expand(header, header, 0)
    work.functions()
    names = " and ".join(f"<{header}>" for header in asked)
    return texts, product(version, f"{names} in one file, on top of the single soma.hpp", ["#include <soma/soma.hpp>"], work)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headers", nargs="*", metavar="soma/NAME.hpp", help="none: the two files that are kept")
    parser.add_argument("-o", "--output", type=pathlib.Path,
                        help="the file; without headers the folder (single_include/soma)")
    parser.add_argument("--root", type=pathlib.Path, default=here.parent, help="the checkout")
    options = parser.parse_args()
    if options.headers and not options.output:
        parser.error("-o FILE is missing")
    texts, asked = amalgamate(options.root, options.headers)
    if options.headers:
        write(options.output, asked)
        return
    for name, text in texts.items():
        write((options.output or here / "soma") / name, text)


if __name__ == "__main__":
    main()
