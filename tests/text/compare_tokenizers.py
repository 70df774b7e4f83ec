#!/usr/bin/env python3
"""Compares tokenize_lines with the package `tokenizers`: ids, types, offsets and decoded texts.

    compare_tokenizers.py PROGRAM VOCAB_FOLDER [--data FILE ...] [--strings 200000]

No code point may differ, however new (unicode_tables.py).
"""

import argparse
import pathlib
import struct
import subprocess
import sys

from tokenizers import BertWordPieceTokenizer, __version__

import hard_texts

# Letters as tokenize_lines takes them: l lowercase, s/S strip_accents, c chinese_chars, t clean_text, p pairs.
OPTIONS = ["lct", "ct", "lSct", "sct", "lt", "lc", "S", "lct16", "lctp", "lctp23", "lctp8"]


def reference(folder, letters):
    strip = True if "s" in letters else False if "S" in letters else None
    tokenizer = BertWordPieceTokenizer(str(folder / "vocab.txt"), lowercase="l" in letters, strip_accents=strip,
                                       handle_chinese_chars="c" in letters, clean_text="t" in letters)
    length = letters.lstrip("lsSctp")
    if length:
        tokenizer.enable_truncation(int(length), strategy="longest_first")
    return tokenizer


def wanted_lines(tokenizer, texts, pairs):
    """The lines of tokenize_lines, by the package."""
    decoded = [text.decode(errors="replace") for text in texts]
    offsets = [hard_texts.byte_offsets(text) for text in texts]
    inputs = list(zip(decoded[::2], decoded[1::2])) if pairs else decoded
    lines = []
    for i, found in enumerate(tokenizer.encode_batch(inputs)):
        tokens = []
        for id_, (begin, end), type_, special in zip(found.ids, found.offsets, found.type_ids,
                                                     found.special_tokens_mask):
            places = offsets[2 * i + type_] if pairs else offsets[i]
            begin, end = (0, 0) if special else (places[begin], places[end])
            tokens.append(f"{id_}:{begin}:{end}:{type_} ")
        lines.append("".join(tokens) + "| " + tokenizer.decode(found.ids).encode().hex())
    return lines


def given_lines(program, folder, letters, texts):
    content = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    result = subprocess.run([program, str(folder), letters], input=content, stdout=subprocess.PIPE, check=True)
    return result.stdout.decode().splitlines()


def differing(options, letters, texts):
    """Indices of texts (of pairs: of the first) whose tokens differ, with both lines."""
    pairs = "p" in letters
    if pairs:
        texts = texts[:len(texts) // 2 * 2]
    found = []
    step = 20000
    tokenizer = reference(options.folder, letters)
    for start in range(0, len(texts), step):
        part = texts[start:start + step]
        wanted = wanted_lines(tokenizer, part, pairs)
        given = given_lines(options.program, options.folder, letters, part)
        assert len(wanted) == len(given), (letters, len(wanted), len(given))
        found += [(start + i * (2 if pairs else 1), a, b) for i, (a, b) in enumerate(zip(wanted, given)) if a != b]
    return found


def report(letters, what, texts, found):
    for index, wanted, given in found[:5]:
        print(f"  DIFFERS {letters} {what} {index}: {texts[index]!r}\n    wanted {wanted}\n    given  {given}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--strings", type=int, default=200000)
    options = parser.parse_args()
    print(f"tokenizers {__version__}")
    failures = 0

    lines = [line for path in options.data for line in path.read_bytes().split(b"\n")]
    for letters in OPTIONS:
        found = differing(options, letters, lines)
        failures += len(found)
        report(letters, "line", lines, found)
        print(f"lines of files, {letters}: {len(lines)}, {len(found)} differ")

    every = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    singles = ["a{0} {0}b {0}".format(chr(point)).encode() for point in every]
    for letters in OPTIONS[:6]:
        found = differing(options, letters, singles)
        failures += len(found)
        report(letters, "code point", singles, found)
        print(f"code points one by one, {letters}: {len(singles)}, {len(found)} differ")

    each = options.strings // len(OPTIONS)
    for number, letters in enumerate(OPTIONS):
        texts = [text.encode(errors="surrogatepass") for text in hard_texts.SAMPLES] + hard_texts.BROKEN
        texts += [hard_texts.generated(f"{number} any", i, lambda point: True) for i in range(each)]
        found = differing(options, letters, texts)
        failures += len(found)
        report(letters, "string", texts, found)
        print(f"strings, {letters}: {len(texts)}, {len(found)} differ")
    print(f"{failures} differences" if failures else "no differences")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
