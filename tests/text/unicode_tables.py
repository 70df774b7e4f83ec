#!/usr/bin/env python3
"""Writes the properties of code points that BERT's tokenizer uses, as the package tokenizers has them.

    python3 -m venv venv && venv/bin/pip install tokenizers
    venv/bin/python -B tests/text/unicode_tables.py

Writes include/soma/text/unicode_tables.hpp and unicode_decompositions.hpp, and tests/text/unicode_words.inc: hashes of
the words of every code point, by the package's own normalizer and splitter. Made with tokenizers 0.23.3; 0.22.2 writes
the same.
"""

import pathlib
import struct
import sys
import unicodedata

from tokenizers import __version__, normalizers, pre_tokenizers

ROOT = pathlib.Path(__file__).parents[2]
EVERY = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)  # decomposed by a rule
BLOCK = 0x4000  # code points of a stored hash
RANGES = """
// Code points first to last.
struct CodeRange {
  char32_t first, last;
};
struct CombiningClass {
  char32_t first, last;
  std::uint8_t value;
};
// The code points first, first + step ... last, whose lower case is `difference` away.
struct LowerCase {
  char32_t first, last;
  std::uint8_t step;
  std::int32_t difference;
};
"""
DECOMPOSITION = """
struct Decomposition {
  char32_t point;
  char32_t parts[4];  // zeros follow the last
};
"""
# The options of a stored hash; as in tokenizer_cases.inc: l lowercase, s/S strip_accents, c chinese_chars, t clean_text.
OPTIONS = ["lct", "ct", "sct", "lSc"]


def bert(letters):
    strip = True if "s" in letters else False if "S" in letters else None
    return normalizers.BertNormalizer(clean_text="t" in letters, handle_chinese_chars="c" in letters,
                                      strip_accents=strip, lowercase="l" in letters)


def ranges(points):
    found = []
    for point in points:
        if found and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point])
    return found


def combining_classes():
    """The classes of marks, by the order in which the package's NFD puts them behind another mark."""
    nfd = normalizers.NFD().normalize_str

    def moves(point, mark):
        """True if the code point goes before the mark."""
        return nfd("a" + mark + chr(point)) == "a" + chr(point) + mark != "a" + mark + chr(point)

    highest = "\u0345"
    one_of = {unicodedata.combining(highest): highest}
    for point in EVERY:
        # The package does not know the newest marks.
        if (number := unicodedata.combining(chr(point))) and number not in one_of and nfd(chr(point)) == chr(point) and \
                moves(point, highest):
            one_of[number] = chr(point)
    classes = {ord(highest): max(one_of)}
    for point in EVERY:
        if len(nfd(chr(point))) == 1 and moves(point, highest):
            classes[point] = max(number for number, mark in one_of.items() if not moves(point, mark))
    return classes


def lower_runs(lower):
    """[first, last, step, difference] of code points that follow each other in that step."""
    runs = []
    for point, target in sorted(lower.items()):
        if runs and target - point == runs[-1][3]:
            first, last, step, _ = runs[-1]
            if (point - last == step and step in (1, 2)) or (first == last and point - last in (1, 2)):
                runs[-1][1:3] = [point, point - last]
                continue
        runs.append([point, point, 1, target - point])
    return runs


def write_rows(out, name, kind, rows):
    out.append(f"inline constexpr {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > 100:
            out.append(line)
            line = "   "
        line += " " + row + ","
    out += [line, "};"]


def head(what, includes, types):
    return ["#pragma once", f"// {what}", f"// tests/text/unicode_tables.py has written the file, with tokenizers {__version__}.", "",
            "#include <soma/base/config.hpp>", *includes, "", "namespace SOMA_NAMESPACE::text::detail {", "",
            *types.strip().splitlines(), "", "// clang-format off"]


def tail():
    return ["// clang-format on", "", "}  // namespace SOMA_NAMESPACE::text::detail", ""]


def fnv(state, data):
    for byte in data:
        state = ((state ^ byte) * 0x100000001B3) & (1 << 64) - 1
    return state


def sample(point):
    return "a{0}\u0327\u0301b {0}1".format(chr(point))



def main():
    clean, strip, lowercase = (bert(letters).normalize_str for letters in ("t", "s", "lS"))
    nfd, split = normalizers.NFD().normalize_str, pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    sets = {"space": [], "punctuation": [], "removed": [], "accent": []}
    lower, parts = {}, {}
    for point in EVERY:
        letter = chr(point)
        inside = f"a{letter}b"
        pieces = len(split(inside))
        if pieces == 2:
            sets["space"].append(point)
        if pieces == 3:
            sets["punctuation"].append(point)
        if clean(inside) == "ab":
            sets["removed"].append(point)
        if strip(letter) == "":
            sets["accent"].append(point)
        if (small := lowercase(letter)) != letter and point != 0x130:
            lower[point] = ord(small)
        if (decomposed := nfd(letter)) != letter and point not in HANGUL:
            parts[point] = [ord(part) for part in decomposed]
    classes = combining_classes()

    out = head("Properties of code points as ranges, in their order.", ["", "#include <cstdint>"], RANGES)
    for name, points in sets.items():
        write_rows(out, name + "_ranges", "CodeRange", [f"{{{low:#x}, {high:#x}}}" for low, high in ranges(points)])
    rows = [(low, high, number) for number in sorted(set(classes.values()))
            for low, high in ranges(sorted(point for point, its in classes.items() if its == number))]
    write_rows(out, "combining_classes", "CombiningClass",
               [f"{{{low:#x}, {high:#x}, {number}}}" for low, high, number in sorted(rows)])
    write_rows(out, "lower_cases", "LowerCase",
               [f"{{{first:#x}, {last:#x}, {step}, {difference}}}" for first, last, step, difference in lower_runs(lower)])
    (ROOT / "include/soma/text/unicode_tables.hpp").write_text("\n".join(out + tail()))

    out = head("Full canonical decompositions in the order of code points, except those of Hangul.", [], DECOMPOSITION)
    write_rows(out, "decompositions", "Decomposition",
               [f"{{{point:#x},{{{','.join(map(hex, its))}}}}}" for point, its in sorted(parts.items())])
    (ROOT / "include/soma/text/unicode_decompositions.hpp").write_text("\n".join(out + tail()))

    out = [f"// Written by unicode_tables.py with tokenizers {__version__}: of each block of {BLOCK} code points."]
    for letters in OPTIONS:
        normalize = bert(letters).normalize_str
        hashes = []
        for start in range(0, 0x110000, BLOCK):
            state = 0xCBF29CE484222325
            for point in range(start, start + BLOCK):
                if 0xD800 <= point < 0xE000:
                    continue
                found = [word for word, _ in split(normalize(sample(point)))]
                state = fnv(state, "\n".join(found).encode() + struct.pack("<I", point))
            hashes.append(f"0x{state:016x}")
        out.append(f'{{"{letters}", {{' + ", ".join(hashes) + "}},")
        print(letters, file=sys.stderr)
    (ROOT / "tests/text/unicode_words.inc").write_text("\n".join(out) + "\n")
    print(", ".join(f"{len(ranges(points))} ranges of {name}" for name, points in sets.items()),
          f"{len(rows)} of classes, {len(lower_runs(lower))} of letters, {len(parts)} decompositions", file=sys.stderr)


if __name__ == "__main__":
    main()
