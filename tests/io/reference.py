#!/usr/bin/env python3
"""Writes the answers that tests/io compares with, computed by the packages safetensors, numpy and xxhash.

    python3 -m venv venv && venv/bin/pip install safetensors numpy xxhash
    venv/bin/python tests/io/reference.py > tests/io/reference.inc

Made with safetensors 0.8.0, numpy 2.4.6, xxhash 4.1.0. The tensors are those of state() in samples.hpp.
"""

import ctypes
import io
import struct

import numpy
import xxhash
from safetensors import TensorSpec, serialize


def counting(dtype, size, count):
    """Elements whose bytes are 1, 2, 3 ... (bools: 1, 0, 1 ...)."""
    if dtype == "bool":
        return bytes((i + 1) % 2 for i in range(count))
    return bytes((i + 1) % 256 for i in range(count * size))


# name, dtype of the Python package, its name in files, bytes of an element, shape
TENSORS = [
    ("layer.1.weight", "float32", "F32", 4, [2, 3]),
    ("layer.1.bias", "float32", "F32", 4, [3]),
    ("layer.10.bias", "float16", "F16", 2, [2]),
    ("embedding", "bfloat16", "BF16", 2, [2, 2]),
    ("a", "bool", "BOOL", 1, [3]),
    ("b", "uint8", "U8", 1, [1, 3]),
    ("c", "int8", "I8", 1, [2]),
    ("d", "float8_e5m2", "F8_E5M2", 1, [1]),
    ("e", "float8_e4m3fn", "F8_E4M3", 1, [2]),
    ("g", "float8_e8m0fnu", "F8_E8M0", 1, [2]),
    ("f", "int32", "I32", 4, [1]),
    ("position_ids", "int64", "I64", 8, [1, 2]),
    ("scalar", "float32", "F32", 4, []),
    ("empty", "float32", "F32", 4, [2, 0]),
    ("quote\"\\ \n\u00e9/\u007f\u0001", "float32", "F32", 4, [1]),
]


def count(shape):
    return int(numpy.prod(shape, dtype=numpy.int64))


def show(name, data):
    print(f"inline constexpr unsigned char {name}[] = {{")
    for begin in range(0, len(data), 16):
        print("    " + " ".join(f"0x{byte:02x}," for byte in data[begin:begin + 16]))
    print("};")


def main():
    data = {name: counting(dtype, size, count(shape)) for name, dtype, _, size, shape in TENSORS}
    buffers = {name: ctypes.create_string_buffer(bytes_, max(len(bytes_), 1)) for name, bytes_ in data.items()}
    file = serialize({name: TensorSpec(dtype=dtype, shape=shape, data_ptr=ctypes.addressof(buffers[name]),
                                       data_len=len(data[name]))
                      for name, dtype, _, _, shape in TENSORS}, metadata={"format": "pt"})
    state = xxhash.xxh64(seed=0)
    for name, _, file_dtype, _, shape in sorted(TENSORS, key=lambda tensor: tensor[0].encode()):
        state.update(name.encode() + b"\0" + file_dtype.encode() + b"\0" + struct.pack("<I", len(shape)))
        state.update(b"".join(struct.pack("<Q", size) for size in shape) + data[name])
    print("// Written by reference.py.")
    show("reference_safetensors", file)
    print(f"inline constexpr unsigned long long reference_state_hash = 0x{state.intdigest():016x}ull;")
    print(f"inline constexpr unsigned long long reference_empty_hash = 0x{xxhash.xxh64(b'').intdigest():016x}ull;")
    for name, array in [("reference_npy", numpy.arange(6, dtype="<f4").reshape(2, 3)),
                        ("reference_npy_fortran",
                         numpy.asfortranarray(numpy.arange(24, dtype="<i4").reshape(2, 3, 4)))]:
        out = io.BytesIO()
        numpy.save(out, array)
        show(name, out.getvalue())


if __name__ == "__main__":
    main()
