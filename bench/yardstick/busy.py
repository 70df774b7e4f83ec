"""Training steps beside busy loops, as a share of the same steps in quiet: medians over alternated measurements.

    busy.py SOMA_YARDSTICK [LENGTHS_FOLDER] [--cases REGEX] [--rounds 7] [--seconds 1.5] [--threads 2] [--busy 2]
            [--before OTHER_YARDSTICK] [--pytorch PYTHON]

A round measures every program in quiet and every program beside the busy loops, in an order that turns from round to round.
Columns: GFLOP/s of useful work in quiet and beside the loops (medians), and what is left of the quiet speed: the median over
the rounds, the least and the most. With --before also the quiet speed as a share of the other yardstick's, pair by pair.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

from compare import HERE, Worker


class BusyLoops:
    """Processes that compute, one for each core or as many as asked for."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(self.count)]
        time.sleep(0.3)  # until all of them have started

    def __exit__(self, *_):
        for loop in self.loops:
            loop.kill()
        for loop in self.loops:
            loop.wait()


class Program:
    """A yardstick at one case, and how many steps it takes for a measurement."""

    def __init__(self, command, seconds):
        self.worker = Worker(command)
        first = self.worker.measure(3)
        self.steps = max(3, round(3 * seconds / first["seconds"]))
        self.quiet, self.busy = [], []

    def measure(self, to):
        to.append(self.worker.measure(self.steps)["gflops"])

    def shares(self):
        return [busy / quiet for busy, quiet in zip(self.busy, self.quiet)]


def commands(options, model):
    """Name and command of each program."""
    source = "full" if options.lengths is None else options.lengths / "lengths_sst2.txt"
    longest = 25 if options.lengths is None else 128
    words = ["step", model, "fp32", 32, longest, options.threads, source]
    yield "soma", [options.yardstick, *words]
    if options.before:
        yield "before", [options.before, *words]
    if options.pytorch:
        yield "PyTorch", [options.pytorch, HERE / "torch_worker.py", *words, "batch"]


def measure(options, model):
    programs = {name: Program(command, options.seconds) for name, command in commands(options, model)}
    try:
        for turn in range(options.rounds):
            order = list(programs.values())
            if turn % 2:
                order.reverse()
            for program in order:
                program.measure(program.quiet)
            if options.busy:
                with BusyLoops(options.busy):
                    for program in order:
                        program.measure(program.busy)
    finally:
        for program in programs.values():
            program.worker.close()
    return programs


def main():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("yardstick", type=pathlib.Path)
    parser.add_argument("lengths", type=pathlib.Path, nargs="?")
    parser.add_argument("--cases", default="", help="a regular expression")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a quiet measurement, about")
    parser.add_argument("--threads", type=int, default=cores)
    parser.add_argument("--busy", type=int, default=cores, help="busy loops; 0: quiet only")
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--pytorch", type=pathlib.Path)
    options = parser.parse_intermixed_args()
    if min(options.rounds, options.threads) < 1 or options.busy < 0:
        parser.error("--rounds and --threads are at least 1, --busy at least 0")
    if options.lengths is not None and not options.lengths.is_dir():
        parser.error(f"no folder {options.lengths}")
    chosen = [model for model in ("minilm", "tiny") if re.search(options.cases, model)]
    if not chosen:
        parser.error(f"no case matches {options.cases}: minilm, tiny")
    print(f"{options.threads} threads, {options.busy} busy loops, {cores} cores; load before: {os.getloadavg()[0]:.1f}")
    print(f"{'case':10s} {'program':8s} {'quiet':>8s} {'busy':>8s} {'share':>6s} {'least':>6s} {'most':>6s} {'of before':>9s}")
    for model in chosen:
        programs = measure(options, model)
        for name, program in programs.items():
            shares = program.shares()
            busy = f"{statistics.median(program.busy):8.2f} {statistics.median(shares):6.2f} {min(shares):6.2f} {max(shares):6.2f}" \
                if shares else " " * 29
            beside = ""
            if name == "soma" and "before" in programs:
                pairs = [new / old for new, old in zip(program.quiet, programs["before"].quiet)]
                beside = f"{statistics.median(pairs):9.3f}"
            print(f"{model:10s} {name:8s} {statistics.median(program.quiet):8.2f} {busy} {beside}", flush=True)


if __name__ == "__main__":
    main()
