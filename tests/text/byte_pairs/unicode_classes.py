#!/usr/bin/env python3
"""Writes the classes of code points that byte-level tokenizers use, as the package tokenizers has them.

    python3 -m venv venv && venv/bin/pip install tokenizers
    venv/bin/python -B tests/text/byte_pairs/unicode_classes.py

Writes include/soma/text/byte_pairs/unicode_classes.hpp. The package splits by regular expressions of one Unicode version,
cuts digits off by another, and composes characters by a third: each table is asked of the part that uses it.
"""

import pathlib
import sys

from tokenizers import Regex, __version__, normalizers, pre_tokenizers

ROOT = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests" / "text"))
import unicode_tables  # noqa: E402

HEAD = """#pragma once
// Classes of code points as ranges, in their order.
// tests/text/byte_pairs/unicode_classes.py has written the file, with tokenizers {version}.

#include <soma/text/unicode_tables.hpp>

namespace SOMA_NAMESPACE::text::detail {{

// clang-format off"""


def matching(split):
    """Code points that the splitter cuts off from what it leaves together."""
    return [point for point in unicode_tables.EVERY if len(split("\x01" + chr(point) + "\x01")) > 1]


def main():
    isolated = {name: pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str
                for name, pattern in (("letter", r"\p{L}"), ("number", r"\p{N}"), ("space", r"\s"))}
    letters, numbers, spaces = (matching(isolated[name]) for name in ("letter", "number", "space"))
    digits = matching(pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str)
    known = {point for low, high in unicode_tables.ranges(spaces) for point in range(low, high + 1)}
    whitespace = {9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
    if known != whitespace:
        sys.exit("white space is not that of unicode_tables.hpp")
    if not set(numbers) <= set(digits):
        sys.exit("a number is no digit")
    nfc, nfd = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str
    uncomposed = [point for point in unicode_tables.EVERY if nfd(chr(point)) != chr(point) != nfc(chr(point))]
    out = HEAD.format(version=__version__).splitlines()
    for comment, name, points in (
            ("", "letter_ranges", letters), ("", "number_ranges", numbers),
            ("Digits of SmolLM's splitter that are no numbers above.", "more_digit_ranges", sorted(set(digits) - set(numbers))),
            ("Decompositions that composing does not undo.", "uncomposed_ranges", uncomposed)):
        if comment:
            out.append(f"// {comment}")
        unicode_tables.write_rows(out, name, "CodeRange",
                                  [f"{{{low:#x}, {high:#x}}}" for low, high in unicode_tables.ranges(points)])
    out += unicode_tables.tail()
    (ROOT / "include/soma/text/byte_pairs/unicode_classes.hpp").write_text("\n".join(out))


if __name__ == "__main__":
    main()
