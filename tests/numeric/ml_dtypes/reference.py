#!/usr/bin/env python3
"""Writes ml_dtypes_reference.inc: what other implementations of our formats give.

Usage: python3 tests/numeric/ml_dtypes/reference.py > tests/numeric/ml_dtypes/reference.inc
Needs the Python packages numpy and ml_dtypes; the first line of the output names their versions.
The inputs are fixed: the same versions give the same file.
"""

import ml_dtypes
import numpy as np

# Name in our tests, their type, bits of a code.
FORMATS = [
    ("fp8_e3m4", ml_dtypes.float8_e3m4, 8),
    ("fp8_e4m3", ml_dtypes.float8_e4m3, 8),
    ("fp8_e5m2", ml_dtypes.float8_e5m2, 8),
    ("fp8_e4m3fn", ml_dtypes.float8_e4m3fn, 8),
    ("fp8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, 8),
    ("fp8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, 8),
    ("e8m0", ml_dtypes.float8_e8m0fnu, 8),
    ("fp6_e2m3", ml_dtypes.float6_e2m3fn, 6),
    ("fp6_e3m2", ml_dtypes.float6_e3m2fn, 6),
    ("fp4_e2m1", ml_dtypes.float4_e2m1fn, 4),
    ("bf16", ml_dtypes.bfloat16, 16),
    ("fp16", np.float16, 16),
]


def storage(bits):
    return np.uint8 if bits <= 8 else np.uint16


def decode(dtype, bits):
    """fp32 bits of every code."""
    codes = np.arange(1 << bits, dtype=storage(bits))
    return codes.view(dtype).astype(np.float32).view(np.uint32)


def encode(dtype, bits, patterns):
    return patterns.view(np.float32).astype(dtype).view(storage(bits))


def pseudo_random(count):
    """Bits of a linear congruential generator (Knuth's MMIX constants)."""
    state = 2026
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 32


def inputs():
    """fp32 patterns: specials, ties and ends of each format with their neighbours, random ones."""
    patterns = [
        0x00000000, 0x00000001, 0x00400000, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000,
        0x7F800001, 0x7F8FFFFF, 0x7F900000, 0x7FA00000, 0x7FBFFFFF, 0x7FC00000, 0x7FC12345,
        0x7FFFFFFF,
    ]  # fmt: skip

    def around(value):
        middle = int(np.float32(value).view(np.uint32))
        patterns.extend(p for p in (middle - 1, middle, middle + 1) if p >= 0)

    for _, dtype, bits in FORMATS:
        values = decode(dtype, bits).view(np.float32).astype(np.float64)
        values = np.unique(np.abs(values))
        values = values[np.isfinite(values)]
        count = len(values)
        around(values[-1] + (values[-1] - values[-2]) / 2)  # the overflow threshold
        for k in (0, 1, 2, count // 3, count // 2, count - 2):
            around((values[k] + values[k + 1]) / 2)  # ties
    for value in (0.1, 0.3, 1.0, 1.5, 3.0, 6.0, 240.0, 448.0, 57344.0):
        patterns.append(int(np.float32(value).view(np.uint32)))
    patterns.extend(pseudo_random(120))
    # Random patterns are mostly far out of range for narrow formats: as many with exponents near 0.
    patterns.extend((p & 0x807FFFFF) | (127 - 12 + p % 24) << 23 for p in pseudo_random(120))
    both = {p & 0x7FFFFFFF for p in patterns}
    return np.array(sorted(both) + sorted(p | 0x80000000 for p in both), dtype=np.uint32)


def table(ctype, name, numbers, digits):
    print(f"inline constexpr {ctype} {name}[] = {{")
    per_line = 96 // (digits + 3)
    words = [f"0x{int(n):0{digits}X}" for n in numbers]
    for i in range(0, len(words), per_line):
        print("  " + ",".join(words[i : i + per_line]) + ",")
    print("};")


def main():
    versions = f"ml_dtypes {ml_dtypes.__version__}, numpy {np.__version__}"
    print(f"// Written by ml_dtypes_reference.py with {versions}.")
    patterns = inputs()
    table("std::uint32_t", "inputs", patterns, 8)
    for name, dtype, bits in FORMATS:
        if bits <= 8:
            table("std::uint32_t", f"{name}_values", decode(dtype, bits), 8)
        ctype = "std::uint8_t" if bits <= 8 else "std::uint16_t"
        table(ctype, f"{name}_codes", encode(dtype, bits, patterns), 2 if bits <= 8 else 4)


if __name__ == "__main__":
    with np.errstate(all="ignore"):  # overflow and NaN are what this is about
        main()
