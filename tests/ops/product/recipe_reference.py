#!/usr/bin/env python3
"""Writes recipe_reference.inc: the scalings of low-precision recipes, computed without us.

Usage: python3 tests/ops/product/recipe_reference.py > tests/ops/product/recipe_reference.inc
Needs the Python packages numpy and ml_dtypes; the first line of the output names their versions.
The inputs are fixed: the same versions give the same file.

Numbers are rounded by ml_dtypes; scales are computed here, from the documents that define them.
"""

import ml_dtypes
import numpy as np

ROWS, COLUMNS = 7, 150

# Name in our tests, type, its largest number, exponent of its largest power of two.
FORMATS = {
    "fp8_e4m3fn": (ml_dtypes.float8_e4m3fn, 448.0, 8),
    "fp8_e5m2": (ml_dtypes.float8_e5m2, 57344.0, 15),
    "fp8_e4m3": (ml_dtypes.float8_e4m3, 240.0, 7),
    "fp8_e3m4": (ml_dtypes.float8_e3m4, 15.5, 3),
    "fp6_e3m2": (ml_dtypes.float6_e3m2fn, 28.0, 4),
    "fp6_e2m3": (ml_dtypes.float6_e2m3fn, 7.5, 2),
    "fp4_e2m1": (ml_dtypes.float4_e2m1fn, 6.0, 2),
}


def inputs():
    """bf16 numbers of many magnitudes, a few of them outliers, and a group of zeros."""
    state, values = 2026, np.empty(ROWS * COLUMNS, np.float64)
    for i in range(len(values)):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        fraction = ((state >> 40) & 0xFFFF) / 65536.0 - 0.5
        spread = (state >> 57) % 12 - 8
        values[i] = fraction * 2.0**spread
    x = values.astype(ml_dtypes.bfloat16).astype(np.float32).reshape(ROWS, COLUMNS)
    x[0, 32:64] = 0
    x[1, 5] = 3e3
    x[2, 0], x[2, 1] = -0.0, 1e-30
    x[3] *= np.float32(2.0**-100)
    x[4] *= np.float32(2.0**90)
    # Ties and largest numbers: a group of each format's even multiples of half spacings.
    x[5, :32] = np.arange(32) * 0.25
    x[6, 32:64] = np.linspace(400, 480, 32).astype(ml_dtypes.bfloat16).astype(np.float32)
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def saturated(quotients, largest):
    """A scale of which a rounding went the wrong way must not make an infinity."""
    return np.clip(quotients, -largest, largest)


def tensor_current(x, dtype, largest):
    """One fp32 scale, amax / largest: current scaling ("FP8 Formats for Deep Learning")."""
    scale = np.float32(np.abs(x).max() / np.float64(largest))
    inverse = np.float32(1) / scale
    codes = saturated(x * inverse, np.float32(largest)).astype(dtype)
    return scale, codes


def mx_block(group, dtype, largest, top):
    """A block by OCP Microscaling Formats 1.0, section 6.3: returns exponent and codes."""
    amax = np.float64(np.abs(group).max())
    if amax == 0:
        return -127, group.astype(dtype)
    # frexp gives amax = m * 2^e with m from 1/2 to below 1: floor(log2(amax)) is e - 1.
    exponent = int(np.frexp(amax)[1]) - 1 - top
    exponent = max(-127, min(127, exponent))
    elements = saturated(group.astype(np.float64) / 2.0**exponent, largest)
    return exponent, elements.astype(np.float32).astype(dtype)


def power_of_two_block(group, dtype, largest):
    """The smallest power of two by which the group fits the format."""
    amax = np.float64(np.abs(group).max())
    if amax == 0:
        return 0, group.astype(dtype)
    exponent = -140
    while amax > largest * 2.0**exponent:
        exponent += 1
    exponent = max(-126, min(126, exponent))  # ours keeps scales and inverses normal numbers
    return exponent, (group.astype(np.float64) / 2.0**exponent).astype(np.float32).astype(dtype)


def blocks(x, size, dtype, quantize):
    """Exponents and codes of all groups of `size` along rows; the last one may be shorter."""
    exponents, codes = [], np.empty(x.shape, dtype)
    for row in range(x.shape[0]):
        for begin in range(0, x.shape[1], size):
            part = slice(begin, min(begin + size, x.shape[1]))
            exponent, codes[row, part] = quantize(x[row, part])
            exponents.append(exponent)
    return exponents, codes.view(np.uint8).ravel()


def table(ctype, name, words):
    print(f"inline constexpr {ctype} {name}[] = {{")
    line = " "
    for word in words:
        if len(line) + len(word) > 98:
            print(line)
            line = " "
        line += word + ","
    print(line)
    print("};")


def numbers(values):
    return [str(int(value)) for value in values]


def main():
    versions = f"ml_dtypes {ml_dtypes.__version__}, numpy {np.__version__}"
    print(f"// Written by recipe_reference.py with {versions}.")
    x = inputs()
    print(f"inline constexpr std::size_t rows = {ROWS}, columns = {COLUMNS};")
    table("std::uint16_t", "inputs", numbers(x.astype(ml_dtypes.bfloat16).view(np.uint16).ravel()))
    # Without the rows of extreme magnitude, which would leave all others zero.
    middle = np.concatenate([x[:3], x[5:]])
    for name in ("fp8_e4m3fn", "fp8_e5m2", "fp8_e4m3", "fp8_e3m4"):
        dtype, largest, _ = FORMATS[name]
        scale, codes = tensor_current(middle, dtype, largest)
        table("std::uint32_t", f"{name}_tensor_scale", numbers([scale.view(np.uint32)]))
        table("std::uint8_t", f"{name}_tensor_codes", numbers(codes.view(np.uint8).ravel()))
    for name in ("fp8_e4m3fn", "fp8_e5m2", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1"):
        dtype, largest, top = FORMATS[name]
        exponents, codes = blocks(
            x, 32, dtype, lambda group: mx_block(group, dtype, largest, top))
        table("std::int16_t", f"{name}_mx_exponents", numbers(exponents))
        table("std::uint8_t", f"{name}_mx_codes", numbers(codes))
    for name in ("fp8_e4m3fn", "fp8_e5m2"):
        dtype, largest, _ = FORMATS[name]
        exponents, codes = blocks(
            x, 128, dtype, lambda group: power_of_two_block(group, dtype, largest))
        table("std::int16_t", f"{name}_block_exponents", numbers(exponents))
        table("std::uint8_t", f"{name}_block_codes", numbers(codes))


if __name__ == "__main__":
    main()
