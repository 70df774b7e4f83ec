#!/usr/bin/env python3
"""Writes the texts and tokens that tokenizer_cases_test.cpp compares with, computed by the package tokenizers.

    python3 -m venv venv && venv/bin/pip install tokenizers
    venv/bin/python -B tests/text/tokenizer_cases.py > tests/text/tokenizer_cases.inc

Made with tokenizers 0.23.3. Only code points of Unicode 3.2: every version of every table knows them.
"""

import hashlib
import pathlib
import tempfile
import unicodedata

from tokenizers import BertWordPieceTokenizer, __version__

import hard_texts
from compare_tokenizers import OPTIONS, reference, wanted_lines

GENERATED = 11  # texts for each of the options
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def known(point):
    return unicodedata.ucd_3_2_0.category(chr(point)) != "Cn"


def chance(text):
    """0 to 99, for a text always the same."""
    return hashlib.sha256(text.encode()).digest()[0] * 100 // 256


def vocabulary(texts):
    """Most characters, at the start and inside of words, and some words and their halves."""
    pieces = set()
    for lowercase in (True, False):
        tokenizer = BertWordPieceTokenizer(lowercase=lowercase)
        for text in texts:
            plain = tokenizer.normalizer.normalize_str(text.decode(errors="replace"))
            for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(plain):
                for character in word:
                    pieces.update(piece for piece in (character, "##" + character) if chance(piece) < 62)
                half = len(word) // 2
                if half and len(word) < 20:
                    pieces.update(piece for piece in (word, word[:half], "##" + word[half:]) if chance(piece) < 25)
    pieces = {piece for piece in pieces if "\n" not in piece and "\r" not in piece and piece.strip() == piece}
    return SPECIAL + sorted(pieces - set(SPECIAL))


def literal(data):
    """A C++ literal of these bytes."""
    return '"' + "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in data) + '"'


def main():
    fixed = [text.encode() for text in hard_texts.SAMPLES] + hard_texts.BROKEN
    usable = [text for text in fixed if all(known(ord(character)) for character in text.decode(errors="replace"))]
    usable = [text for text in usable if len(text) < 400]
    texts = {letters: usable + [hard_texts.generated(f"stored {letters}", i, known) for i in range(GENERATED)]
             for letters in OPTIONS}
    pieces = vocabulary([text for part in texts.values() for text in part])
    print(f"// Written by tokenizer_cases.py with tokenizers {__version__}.")
    print("inline constexpr const char* const stored_vocabulary =")
    for start in range(0, len(pieces), 8):
        print("    " + literal("".join(piece + "\n" for piece in pieces[start:start + 8]).encode()))
    print("    ;")
    print("inline const StoredCase stored_cases[] = {")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "vocab.txt").write_text("".join(piece + "\n" for piece in pieces), encoding="utf-8",
                                                        newline="\n")
        for letters in OPTIONS:
            pairs = "p" in letters
            part = texts[letters][:len(texts[letters]) // 2 * 2] if pairs else texts[letters]
            lines = wanted_lines(reference(pathlib.Path(folder), letters), part, pairs)
            for i, line in enumerate(lines):
                first, second = (part[2 * i], part[2 * i + 1]) if pairs else (part[i], b"")
                print(f'{{"{letters}", {literal(first)}sv, {literal(second)}sv, "{line}"}},')
    print("};")


if __name__ == "__main__":
    main()
