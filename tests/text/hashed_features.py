#!/usr/bin/env python3
"""Known answers of hashed features: prints hashed_features.inc.

    python3 hashed_features.py > hashed_features.inc
"""

M = (1 << 64) - 1
GOLDEN, FIRST, PRIME = 0x9E3779B97F4A7C15, 0x243F6A8885A308D3, 0x100000001B3


def mixed(x):
    for _ in range(2):
        x = ((x ^ (x >> 32)) * 0xD6E8FEB86659FD93) & M
    return x ^ (x >> 32)


def chain(start, data):
    for byte in data:
        start = ((start ^ (byte + 32 if 65 <= byte <= 90 else byte)) * PRIME) & M
    return start


def points(data):
    """Bytes cut into code points: what begins with 10 in binary goes on."""
    result = []
    for byte in data:
        if result and byte & 0xC0 == 0x80:
            result[-1] += bytes([byte])
        else:
            result.append(bytes([byte]))
    return result


def is_word(byte):
    return chr(byte).isalnum() if byte < 128 else True


def words_of(data, punctuation):
    words, current = [], b""
    for byte in data:
        mark = punctuation and byte > 32 and not is_word(byte)
        if byte <= 32 or mark:
            if current:
                words.append((current, True))
            current = b""
            if mark:
                words.append((bytes([byte]), False))
        else:
            current += bytes([byte])
    if current:
        words.append((current, True))
    return words


def features(text, tokens="words_and_punctuation", window=4, ngrams=2, parts=0, bits=20, seed=0):
    data, start = text.encode("utf-8"), mixed((seed + FIRST) & M)
    row = lambda h: h >> (64 - bits)
    ids, hashes = [], []
    if tokens == "characters":
        all_points = points(data)
        for i in range(max(len(all_points) - window, 0) + 1 if data else 0):
            hashes.append(mixed(chain(start, b"".join(all_points[i:i + window]))))
    else:
        for word, whole in words_of(data, tokens != "words"):
            hashes.append(mixed(chain(start, word)))
            if parts and whole:
                pieces = points(b"<" + word + b">")
                for i in range(len(pieces) - parts + 1):
                    ids.append(row(mixed(chain(start ^ GOLDEN, b"".join(pieces[i:i + parts])))))
    hashes = hashes or [start]
    ids += [row(h) for h in hashes]
    for size in range(2, ngrams + 1):
        for i in range(len(hashes) - size + 1):
            h = mixed((start + size) & M)
            for token in hashes[i:i + size]:
                h = mixed((h * GOLDEN + token) & M)
            ids.append(row(h))
    return ids


CASES = [
    ("", {}),
    ("Not a good film.", {}),
    ("Not a good film.", {"seed": 12345678901234567890, "bits": 26}),
    ("it's caf\u00e9 time", {"parts": 5, "ngrams": 1}),
    ("it's caf\u00e9 time", {"tokens": "words", "ngrams": 3, "bits": 10}),
    ("na\u00efve \U0001f600!", {"tokens": "characters", "window": 3, "ngrams": 2}),
    ("abc", {"tokens": "characters", "window": 5}),
]

NAMES = {"tokens": "TokenKind::{}", "seed": "{}u"}
ORDER = ["tokens", "window", "ngrams", "parts", "bits", "seed"]

if __name__ == "__main__":
    print("// Made by hashed_features.py.\nstruct Known {\n  const char* text;\n"
          "  HashedFeatureOptions options;\n  Ids ids;\n};\nconst Known known_answers[] = {")
    for text, options in CASES:
        given = ", ".join(f".{name} = " + NAMES.get(name, "{}").format(options[name])
                          for name in ORDER if name in options)
        letters = "".join(chr(b) if 32 <= b < 127 and b != 34 else f"\" \"\\x{b:02x}\" \""
                          for b in text.encode("utf-8")).replace('" "" "', '""')
        print(f'    {{"{letters}",\n     {{{given}}},\n     {{' +
              ", ".join(map(str, features(text, **options))) + "}},")
    print("};")
