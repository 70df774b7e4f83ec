"""How time and memory of a training step grow: one factor at a time, and the exponents of the growth.

    growth.py SOMA_GROWTH [--quick] [--factors REGEX] [--threads N] [--markdown]

Each case is a process of its own. Columns: milliseconds of a step by the clock and of CPU, GFLOP of the products, GB that
operators read and write, the most memory that the context held in MiB; then what takes most of the operators' time. Below a factor's
cases, the exponents: of a line through all points (log-log, least squares), and through the last three, where it shows what bounds
large cases. Work is the larger of the exponents of products and of bytes. Where CPU time grows faster than that by more than 0.1
at the end, the factor is marked.
"""

import argparse
import json
import math
import os
import re
import statistics
import subprocess

BASE = {"batch": 8, "length": 128, "width": 256, "layers": 4, "classes": 2, "threads": 1}
MARGIN = 0.1


def factors(quick, cores):
    threads = [1 << i for i in range(cores.bit_length()) if 1 << i <= cores]
    if quick:
        return {"batch": [2, 8, 32], "length": [32, 128, 512, 2048], "width": [128, 256, 512], "layers": [1, 4, 16],
                "classes": [2, 1000, 10000, 100000], "threads": threads}
    return {"batch": [1, 2, 4, 8, 16, 32, 64, 128], "length": [16, 32, 64, 128, 256, 512, 1024, 2048],
            "width": [64, 128, 256, 512, 1024], "layers": [1, 2, 4, 8, 16, 32],
            "classes": [2, 10, 100, 1000, 10000, 30000, 100000], "threads": threads}


def measure(options, case):
    words = [case[name] for name in ("batch", "length", "width", "layers", "classes", "threads")]
    seconds = 0.3 if options.quick else 3
    runs = [json.loads(subprocess.run([options.program, *map(str, words), str(seconds)], check=True, capture_output=True,
                                      text=True).stdout) for _ in range(1 if options.quick else 3)]
    return {key: runs[0][key] if key == "operators" else statistics.median(run[key] for run in runs) for key in runs[0]}


def exponent(values, results, what):
    """The slope of a line through (log value, log result)."""
    x, y = [math.log(value) for value in values], [math.log(max(result[what], 1e-12)) for result in results]
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    return (sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x))


def line(options, cells):
    if options.markdown:
        return "| " + " | ".join(cells) + " |"
    return "".join(cell.ljust(9) if i == 0 else cell.rjust(9) for i, cell in enumerate(cells[:-1])) + "  " + cells[-1]


def report(options, name, values):
    results = []
    for value in values:
        case = {**BASE, "threads": options.threads, name: value}
        result = measure(options, case)
        results.append(result)
        most = sorted(result["operators"].items(), key=lambda item: -item[1])[:3]
        print(line(options, [f"{name} {value}" if options.markdown else str(value), f"{result['seconds'] * 1e3:.2f}",
                             f"{result['cpu'] * 1e3:.2f}", f"{result['operations'] * 1e-9:.2f}", f"{result['bytes'] * 1e-9:.3f}",
                             f"{result['heap'] / 2**20:.1f}",
                             ", ".join(f"{operator} {100 * share:.0f} %" for operator, share in most)]), flush=True)
    if len(values) < 2:
        return False
    kinds = ("seconds", "cpu", "operations", "bytes", "heap")
    grows = False
    for title, last in (("all", len(values)), ("last 3", 3)):
        if last > len(values):
            continue
        slopes = {kind: exponent(values[-last:], results[-last:], kind) for kind in kinds}
        note = "exponents"
        if last == min(3, len(values)) and name != "threads":
            work = max(slopes["operations"], slopes["bytes"])
            grows = slopes["cpu"] > work + MARGIN
            note += f": CPU {slopes['cpu']:.2f}, work {work:.2f}" + (", FASTER THAN ITS WORK" if grows else "")
        print(line(options, [title, *(f"{slopes[kind]:.2f}" for kind in kinds), note]), flush=True)
    return grows


def main():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--factors", default="", help="a regular expression")
    parser.add_argument("--threads", type=int, default=cores)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    chosen = {name: values for name, values in factors(options.quick, cores).items() if re.search(options.factors, name)}
    if options.threads < 1 or not chosen:
        parser.error(f"--threads is at least 1, --factors one of {', '.join(BASE)}")
    heads = ["", "ms", "CPU ms", "GFLOP", "GB", "MiB", "most of the operators' time"]
    grown = []
    for name, values in chosen.items():
        if options.markdown:
            print(f"\n### {name}\n\n{line(options, heads)}\n|{'---|' * len(heads)}")
        else:
            print(f"\n{line(options, [name, *heads[1:]])}")
        if report(options, name, values):
            grown.append(name)
    print("\nfaster than its work: " + (", ".join(grown) or "nothing"))


if __name__ == "__main__":
    main()
