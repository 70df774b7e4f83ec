#!/usr/bin/env python3
"""The reference: what its filter makes of a header, and (with --build) that Doxygen builds it without a warning.

The pages of a few declarations must hold what their comments say, so that a filter that finds nothing does not pass.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import house

HEADER = """\
#pragma once
// What the file is for,
// in two lines: 1 < 2.

#include <vector>  // stays

namespace soma {

// ---- a heading

// A class<T> of `code`.
// Its table:
//    one   two
template <class T>
class Some : public Base<T> {
 public:
  // Not directly before a declaration.

  explicit Some(int x) : x_{x} {}  // makes one
  int size() const { return x_; }  // in elements
                                   // and no more
  // A function with
  // a body.
  int f(int a,  // an argument
        // another one
        int b) {
    // inside
    const int local[] = {1, 2};  // inside
    return local[0] + a + b;
  }
  std::vector<int> values{};  // behind
  // The last.
  int last = 0;

 private:
  int x_ = 0;
};

enum class Kind {
  one,  // the first
  // Before the second.
  two
};
#define MACRO(x) \\
  // not code {

// After all.
inline constexpr Kind kinds[] = {Kind::one,
                                 Kind::two};
// A function of the namespace.
struct Kind g();
}  // namespace soma

// Of another library.
template <>
struct std::hash<soma::Kind> {
  // Nothing.
};
"""
# The lines that must change, by number from 1; all others stay.
CHANGED = {
    2: r"/// What the file is for,",  # one line later: \file takes the place of the empty line
    11: r"/// A class\<T\> of <code>code</code>.",
    12: r"/// Its table:",
    13: r"/// \verbatim    one   two \endverbatim",
    19: r"  explicit Some(int x) : x_{x} {}  ///< makes one",
    20: r"  int size() const { return x_; }  ///< in elements",
    21: r"                                   ///< and no more",
    22: r"  /// A function with",
    23: r"  /// a body.",
    31: r"  std::vector<int> values{};  ///< behind",
    32: r"  /// The last.",
    40: r"  one,  ///< the first",
    41: r"  /// Before the second.",
    47: r"/// After all.",
    50: r"/// A function of the namespace.",
    55: "", 56: "", 57: "", 58: "",
}
# Page, and a sentence that a comment of the headers puts there.
SENTENCES = (
    ("classsoma_1_1Tape.html", "Clears the recording and starts a new one"),
    ("classsoma_1_1Tape.html", "nodes recorded so far"),
    ("structsoma_1_1Rounding.html", "how many random bits"),
    ("classsoma_1_1nn_1_1Linear.html", "[..., in] to [..., out]"),
)


def check_filter(root, problems):
    sys.path.insert(0, str(root / "docs/reference"))
    import filter as doxygen_filter
    given = HEADER.splitlines()
    wanted = [CHANGED.get(number, line) for number, line in enumerate(given, start=1)]
    wanted[1:4] = [r"/// \file", "/// What the file is for,", r"/// in two lines: 1 \< 2."]
    found = doxygen_filter.translated(given)
    for number, (is_now, should) in enumerate(zip(found, wanted), start=1):
        if is_now != should:
            problems.append(f"filter.py, line {number} of the sample: {is_now!r}, wanted {should!r}")
    if len(found) != len(given):
        problems.append(f"filter.py makes {len(found)} lines of {len(given)}")


def check_files(root, problems):
    """The pages are made of declarations."""
    import build  # beside the filter
    with tempfile.TemporaryDirectory() as folder:
        include = pathlib.Path(folder)
        for name in (*build.ROOTS, "soma/some.hpp"):
            (include / name).parent.mkdir(exist_ok=True)
            (include / name).write_text("#include <soma/some.hpp>\n#include <soma/kernel-inl.hpp>\n#include <soma/impl/some.ipp>\n",
                                        encoding="utf-8")
        found = build.reached(include)
        if found != sorted([*build.ROOTS, "soma/some.hpp"]):
            problems.append(f"build.py reads {found}")


def check_sentences(root, problems):
    """The pages are built by the slow suite alone; a comment that was written anew is seen here."""
    said = "\n".join(house.read(path) for path in sorted((root / "include").rglob("*.hpp")))
    problems += [f"no header says \"{sentence}\", which {page} is to hold" for page, sentence in SENTENCES if sentence not in said]


def check_pages(root, folder, problems):
    result = subprocess.run([sys.executable, "-B", root / "docs/reference/build.py", "--root", root, "--output", folder],
                            capture_output=True, text=True, check=False)
    if result.returncode == house.SKIPPED:
        print(result.stdout.strip())
        sys.exit(house.SKIPPED)
    if result.returncode != 0:
        problems.append((result.stdout + result.stderr)[-6000:])
        return
    for page, sentence in SENTENCES:
        path = folder / "html" / page
        text = " ".join(re.sub(r"<[^>]*>", "", house.read(path)).split()) if path.is_file() else ""
        if sentence not in text:
            problems.append(f"{path}: does not say \"{sentence}\"")
    print(result.stdout.strip())


def main():
    options = house.arguments(__doc__, "--work", switches=("--build",))
    problems = []
    check_filter(options.root, problems)
    check_files(options.root, problems)
    check_sentences(options.root, problems)
    if options.build:
        check_pages(options.root, pathlib.Path(options.work), problems)
    house.finish(problems, "the filter does what it says")


if __name__ == "__main__":
    main()
