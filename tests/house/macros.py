#!/usr/bin/env python3
"""Macros that a user's unit gets from <soma/api.hpp>: ours are SOMA_*, the others have a known owner.

What the foreign headers of soma define anyway is taken off first.
"""

import pathlib
import re
import subprocess
import tempfile

import house

OURS = re.compile(r"SOMA_[A-Z0-9_]+$")
# GSL has two macros without a prefix; HWY_* are settings that base/config.hpp makes for Highway.
FOREIGN = re.compile(r"(HWY_|GSL_|gsl_)\w*$|(Expects|Ensures)$")
HEADER = "soma/api.hpp"


def macros(compiler, root, text, folder):
    unit = pathlib.Path(folder) / "unit.cpp"
    unit.write_text(text, encoding="utf-8")
    output = subprocess.run(
        [compiler, "-std=c++20", "-O2", "-DSOMA_DISPATCH=1", "-I", root / "include", "-dM", "-E", unit],
        check=True, capture_output=True, text=True).stdout
    return {line.split()[1].split("(")[0] for line in output.splitlines() if line.startswith("#define ")}


def foreign_headers(root):
    """Standard and library headers that soma includes anywhere (Highway is not behind api.hpp)."""
    used = {name for path in house.code(root, "include") for _, bracket, name in house.includes(path)
            if bracket == "<" and not name.startswith(("soma/", "hwy/", "xtensor"))}
    return sorted(used)


def main():
    options = house.arguments(__doc__, "--compiler")
    base = "".join(f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n"
                   for name in foreign_headers(options.root))
    with tempfile.TemporaryDirectory() as folder:
        before = macros(options.compiler, options.root, base, folder)
        after = macros(options.compiler, options.root, base + f"#include <{HEADER}>\n", folder)
    added = sorted(after - before)
    problems = [f"{HEADER} defines {name}" for name in added
                if not OURS.match(name) and not FOREIGN.match(name)]
    house.finish(problems, f"{HEADER} adds {len(added)} macros: {' '.join(added)}")


if __name__ == "__main__":
    main()
