"""The scalars of TensorBoard's event files, read without TensorBoard."""

import struct
from pathlib import Path


def varint(text, at):
    value, shift = 0, 0
    while True:
        value |= (text[at] & 127) << shift
        shift += 7
        at += 1
        if text[at - 1] < 128:
            return value, at


def fields(message):
    """Number and content of each field of a protocol buffer."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        kind = key & 7
        if kind == 0:
            content, at = varint(message, at)
        else:
            size, at = varint(message, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            content = message[at:at + size]
            at += size
        yield key >> 3, content


def scalars(folder):
    """{tag: [(step, value), ...]} of all files in the folder, in the order of their names."""
    result = {}
    for path in sorted(Path(folder).iterdir()):
        text, at = path.read_bytes(), 0
        while at < len(text):
            (size,) = struct.unpack_from("<Q", text, at)
            event = dict(fields(text[at + 12:at + 12 + size]))
            at += 12 + size + 4
            if 5 not in event:
                continue
            point = dict(fields(dict(fields(event[5]))[1]))
            (value,) = struct.unpack("<f", point[2])
            result.setdefault(point[1].decode(), []).append((event.get(2, 0), value))
    return result
