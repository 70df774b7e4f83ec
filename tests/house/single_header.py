#!/usr/bin/env python3
"""The single headers in the checkout are those that their generator makes, byte for byte.

What it makes of functions in impl/*.ipp is shown by a small library of its own, which is compiled: in one unit and in two,
header-only and with its functions in a library, and with a header on request.
"""

import difflib
import pathlib
import subprocess
import sys
import tempfile

import house

PRODUCTS = "single_include/soma"
GENERATOR = "single_include/amalgamate.py"
END = "\n#ifndef SOMA_DISPATCH\n#include <soma/{0}>\n#endif\n"
SAMPLE = {
    "base/version.hpp": """#pragma once
#define SOMA_VERSION_MAJOR 1
#define SOMA_VERSION_MINOR 2
#define SOMA_VERSION_PATCH 3
""",
    "base/config.hpp": """#pragma once
#ifdef SOMA_DISPATCH
#define SOMA_INLINE
#else
#define SOMA_INLINE inline
#endif
""",
    "base/words.hpp": "#pragma once\n#include <string>\nnamespace soma { std::string word(int n); }\n" + END.format("base/impl/words.ipp"),
    "base/impl/words.ipp": """#pragma once
#include <soma/base/config.hpp>
#include <soma/base/words.hpp>
namespace soma { SOMA_INLINE std::string word(int n) { return std::to_string(n); } }
""",
    # Only functions need it.
    "io/numbers.hpp": "#pragma once\n#include <string_view>\nnamespace soma { int number(std::string_view text); }\n" + END.format("io/impl/numbers.ipp"),
    "io/impl/numbers.ipp": """#pragma once
#include <soma/base/config.hpp>
#include <soma/io/numbers.hpp>
#include <cstdlib>
#include <string>
namespace soma { SOMA_INLINE int number(std::string_view text) { return std::atoi(std::string(text).c_str()); } }
""",
    # The first in the file, whose functions need an inline one of those behind it, and a type of train.hpp.
    "data/rows.hpp": "#pragma once\n#include <vector>\nnamespace soma { int sum(const std::vector<int>& rows); }\n" + END.format("data/impl/rows.ipp"),
    "data/impl/rows.ipp": """#pragma once
#include <soma/base/config.hpp>
#include <soma/base/words.hpp>
#include <soma/data/rows.hpp>
#include <soma/io/numbers.hpp>
#include <soma/train/step.hpp>
#include <numeric>
namespace soma {
SOMA_INLINE int sum(const std::vector<int>& rows) {
  return Step{std::accumulate(rows.begin(), rows.end(), 0)}.size + number(word(1));
}
}
""",
    "train/step.hpp": "#pragma once\nnamespace soma { struct Step { int size; }; }\n",
    "train/loop.hpp": "#pragma once\n#include <soma/train/step.hpp>\nnamespace soma { Step last(); }\n" + END.format("train/impl/loop.ipp"),
    "train/impl/loop.ipp": """#pragma once
#include <soma/base/config.hpp>
#include <soma/train/loop.hpp>
namespace soma { SOMA_INLINE Step last() { return {7}; } }
""",
    "api.hpp": "#pragma once\n#include <soma/data/rows.hpp>\n#include <soma/base/words.hpp>\n",
    "train.hpp": "#pragma once\n#include <soma/train/loop.hpp>\n",
    "soma.hpp": "#pragma once\n#include <soma/api.hpp>\n",
    "extra.hpp": "#pragma once\n#include <soma/api.hpp>\n#include <soma/io/numbers.hpp>\nnamespace soma { int twice(int n); }\n" + END.format("impl/extra.ipp"),
    "impl/extra.ipp": """#pragma once
#include <soma/base/config.hpp>
#include <soma/extra.hpp>
#include <algorithm>
namespace soma { SOMA_INLINE int twice(int n) { return std::max(n, number("0")) * 2; } }
""",
}
USES = """#include <soma/soma.hpp>
#include <soma/extra.hpp>
int beside();
int main() { return soma::sum({1, 2}) + soma::last().size + soma::twice(4) + soma::number("5") + beside() == 28 ? 0 : 1; }
"""
BESIDE = "#include <soma/api.hpp>\nint beside();\nint beside() { return soma::sum({2, 1}); }\n"


def sample(root, compiler, folder, report):
    include, single = folder / "include/soma", folder / "single/soma"
    for name, text in SAMPLE.items():
        (include / name).parent.mkdir(parents=True, exist_ok=True)
        (include / name).write_text(text, encoding="utf-8")
    generator = [sys.executable, "-B", root.resolve() / GENERATOR, "--root", folder]
    subprocess.run([*generator, "-o", single], check=True)
    subprocess.run([*generator, "soma/extra.hpp", "-o", single / "extra.hpp"], check=True)
    files = [f"// ---- soma/{name}" for name in (
        "train/step.hpp", "io/numbers.hpp", "base/impl/words.ipp", "io/impl/numbers.ipp", "data/impl/rows.ipp",
        "train/loop.hpp", "train/impl/loop.ipp")]
    text = house.read(single / "soma.hpp")
    places = [text.find(name) for name in files]
    if -1 in places or places != sorted(places):
        report(f"the sample's single soma.hpp has its files not in the order {files}")
    for name in ("extra", "soma"):
        if ".ipp>" in house.read(single / f"{name}.hpp"):
            report(f"the sample's single {name}.hpp includes a file of functions")

    def run(*command):
        if not pathlib.Path(command[0]).is_file() and command[0] != compiler:
            return ""  # it did not compile, which is told above
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            report(f"{' '.join(map(str, command))} ends with {result.returncode}\n{result.stderr[:2000]}")
        return result.stdout

    (folder / "uses.cpp").write_text(USES, encoding="utf-8")
    (folder / "beside.cpp").write_text(BESIDE, encoding="utf-8")
    (folder / "both.cpp").write_text("#include <soma/soma.hpp>\n" + BESIDE, encoding="utf-8")
    (folder / "library.cpp").write_text("".join(f"#include <soma/{name}>\n" for name in SAMPLE if name.endswith(".ipp")),
                                        encoding="utf-8")
    command = [compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-I"]
    for beside in ("beside", "both"):
        run(*command, "single", "uses.cpp", f"{beside}.cpp", "-o", "header_only")
        run(folder / "header_only")
    run(*command, "include", "-DSOMA_DISPATCH=1", "-c", "library.cpp")
    run(*command, "single", "-DSOMA_DISPATCH=1", "uses.cpp", "beside.cpp", "library.o", "-o", "dispatched")
    run(folder / "dispatched")
    light = run(*command, "single", "-DSOMA_DISPATCH=1", "-E", "both.cpp")
    if "number(std::string_view" in light or "/cstdlib" in light.split("namespace soma")[-1]:
        report("with SOMA_DISPATCH the sample's single header has what only functions need")
    # A file of functions in the middle of a header is an error, not lost.
    (include / "extra.hpp").write_text("#pragma once\n#include <soma/impl/extra.ipp>\nstruct Extra {};\n", encoding="utf-8")
    result = subprocess.run([*generator, "soma/extra.hpp", "-o", single / "extra.hpp"], capture_output=True, text=True, check=False)
    if result.returncode == 0 or "at the end of the header" not in result.stderr:
        report("a file of functions in the middle of a header is not refused")


def main():
    options = house.arguments(__doc__, "--compiler")
    problems, lines = [], 0
    with tempfile.TemporaryDirectory() as folder:
        sample(options.root, options.compiler, pathlib.Path(folder), problems.append)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-B", options.root / GENERATOR, "--output", folder], check=True)
        names = {path.name for path in pathlib.Path(folder).iterdir()}
        names |= {path.name for path in (options.root / PRODUCTS).iterdir()}
        for name in sorted(names):
            given, wanted = (read(pathlib.Path(root) / name) for root in (options.root / PRODUCTS, folder))
            lines += len(wanted.splitlines())
            if given != wanted:
                different = difflib.unified_diff(given.splitlines(), wanted.splitlines(), f"{PRODUCTS}/{name}",
                                                 "freshly generated", lineterm="", n=1)
                problems += list(different)[:40] or ["they differ in line endings"]
                problems.append(f"{PRODUCTS}/{name} is out of date: python3 {GENERATOR}")
    house.finish(problems, f"{', '.join(sorted(names))}: {lines} lines, up to date")


def read(path):
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""


if __name__ == "__main__":
    main()
