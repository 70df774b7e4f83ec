#!/usr/bin/env python3
"""Programs read tensors through the core only.

The elements of an input may still be on their way when a program is called: a lazy device waits between operators for nothing
that the order of instructions does not see. So a program copies by transfers (row_major(), DeviceRows), which are ordered and which
the clock counts, and the host reads only what the device has finished with (HostNumbers, Program::host_inputs). Memory that a
program made itself, such as a plan of row numbers, it may write: `mutable_data`, `mutable_span`.
"""

import re

import house

# The one place where the host reads an input.
READERS = {"inputs.hpp", "impl/inputs.ipp"}
# The device itself, which runs, names and checks calls between launches.
DEVICE = re.compile(r"(?:impl/)?(?:neuroncore_device|finite_check|run_mode|device_scalars)\.[hi]pp|graph/.*")
READS = re.compile(
    r"(?:(?<![\w.>:])|\bdetail::)(contiguous|clone|copy|as_rows|plain_fp32|operand|rows_of)\s*\("
    r"|\bdetail::(first_matrix|for_each_matrix)\s*\("
    r"|\b((?:mutable_)?raw)\s*\(\s*\)"
    r"|\b(data|item|span|view)\s*<[\w:]*>\s*\(\s*\)"
    r"|puts\[[^\]]*\]\s*\.\s*(mutable_\w+)"
)


def main():
    options = house.arguments(__doc__)
    folder = options.root / "include" / "soma" / "programs"
    problems, count = [], 0
    for path in house.code(options.root, "include/soma/programs"):
        name = path.relative_to(folder).as_posix()
        if name in READERS or DEVICE.fullmatch(name):
            continue
        count += 1
        for number, line in house.lines(path):
            for match in READS.finditer(line.split("//")[0]):
                what = next(group for group in match.groups() if group)
                problems.append(f"{name}:{number}: {what}: a program reads tensors by transfers: row_major(), DeviceRows, HostNumbers")
    house.finish(problems if count else ["no files"], f"{count} files of programs read tensors through the core")


if __name__ == "__main__":
    main()
