"""The same weights from threads, ranks and both, resumed with another number of them: one table.

    python3 same_bits.py PROGRAM WORK_FOLDER [--mpirun MPIRUN] [--steps N] [--few] [--precision P...]
                         [--data PATH] [--pretrained DIR] [--option OPTION...]
                         [--threads-as-ranks PROGRAM] [--rows TEXT]

Prints the hash of all weights after so many steps; a column holds one hash, or the script fails.
"""

import argparse
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import launched
from launched import tool


@dataclass
class Way:
    """0 ranks: the program alone. `then`: how a run goes on that was ended in the middle."""
    ranks: int = 0
    threads: int = 1
    options: tuple = ()
    then: "Way" = None
    one_process: bool = False  # ranks are threads

    def __str__(self):
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        ranks = f"{self.ranks} rank{'s' if self.ranks > 1 else ''}"
        ranks += " in one process" if self.one_process else ""
        parts = [threads if not self.ranks else ranks if self.threads == 1 else
                 f"{ranks} of {threads}"]
        parts += [f"`{option}`" for option in self.options]
        return ", ".join(parts) + (f"; resumed with {self.then}" if self.then else "")


ZERO, LATE, SMALL = "--shard-optimizer", "--no-overlap", "--bucket-size=4KiB"
# Two stages or three; scales of whole batches have one micro-batch (WHOLE).
STAGES, THREE = ("--partitions=2", "--microbatches=2"), ("--partitions=3", "--microbatches=4", "--optimize=speed")
SIMPLE, CUT = ("--pipeline=simple", "--placement=spread"), "--cut=head"
WHOLE = ("fp8_current", "cfp8")
FEW = [Way(), Way(threads=3), Way(2), Way(4, one_process=True), Way(4, 2, (ZERO,)), Way(8, 1, (SMALL,)),
       Way(2, 1, (LATE,)), Way(4, 1, (ZERO,), Way(threads=2)), Way(threads=1, then=Way(4)),
       Way(3, 1, THREE), Way(4, 1, (*STAGES, ZERO), Way(threads=2))]
ALL = [*(Way(threads=threads) for threads in (1, 2, 3, 7)),
       *(Way(ranks, one_process=True) for ranks in (1, 2, 4, 8)),
       *(Way(ranks) for ranks in (1, 2, 4, 8)),
       Way(2, 3), Way(4, 2), Way(8, 2),
       *(Way(ranks, 1, (ZERO,)) for ranks in (1, 2, 4, 8)),
       *(Way(ranks, 1, (LATE,)) for ranks in (2, 4, 8)),
       Way(2, 1, (SMALL,)), Way(4, 1, (LATE, SMALL)), Way(4, 2, (ZERO, SMALL)),
       Way(8, 1, (ZERO, LATE)),
       Way(threads=2, then=Way(4)), Way(4, then=Way(threads=3)), Way(2, then=Way(8)),
       Way(8, 1, (ZERO,), Way(2)), Way(2, then=Way(4, 1, (ZERO,))),
       Way(4, 1, (ZERO,), Way(2, 2, (ZERO, LATE))),
       Way(2, 1, STAGES), Way(2, 2, (*STAGES, *SIMPLE, CUT)), Way(4, 1, (*STAGES, *SIMPLE)), Way(8, 1, (*STAGES, ZERO)),
       Way(3, 1, THREE), Way(6, 1, THREE), Way(2, 1, STAGES, Way(3, 1, THREE)), Way(3, 1, THREE, Way(threads=1)),
       Way(threads=1, then=Way(4, 1, STAGES)), Way(4, 1, (*STAGES, ZERO), Way(2, 1, (*STAGES, CUT, ZERO)))]


class Table:
    def __init__(self, given):
        self.given = given
        self.program = os.path.abspath(given.program)
        self.work = Path(given.work).absolute()
        self.checks = tool.Checks()

    def arguments(self, precision):
        given = self.given
        if given.data or given.pretrained:
            made = ["train", "--quiet"]
            made += [f"--data={given.data}"] if given.data else []
            made += [f"--pretrained={given.pretrained}"] if given.pretrained else []
        else:  # 10 steps an epoch
            made = ["train", "--quiet", "--reviews=100", "--batch-size=10", "--vocab-size=300",
                    "--max-length=16"]
        epochs = -(-given.steps // 10)
        return [*made, f"--epochs={epochs}", f"--max-steps={given.steps}",
                f"--evaluate-every={given.steps}", f"--precision={precision}", *given.option]

    def train(self, way, arguments, what):
        options = [*arguments, f"--threads={way.threads}", *way.options]
        if any(f"--precision={whole}" in arguments for whole in WHOLE):
            options = [option for option in options if not option.startswith("--microbatches")]
        words = launched.command(self.program, way.ranks, options, self.given.mpirun)
        if way.one_process:
            words = [self.given.threads_as_ranks, str(way.ranks), *options]
        result = launched.run(words, timeout=self.given.timeout)
        found = launched.printed_hash(result)
        self.checks.that(found is not None, f"{what}: exit code {result.returncode}, "
                         f"{result.stdout[-300:]}, {result.stderr[-1000:]}")
        return found

    def hash(self, way, precision):
        arguments = self.arguments(precision)
        what = f"{precision}, {way}"
        if way.then is None:
            return self.train(way, arguments, what)
        # A run that ended after a step in the middle leaves only its checkpoint.
        middle = self.given.steps // 2
        source = tool.fresh_folder(self.work / "whole")
        whole = self.train(way, [*arguments, f"--checkpoint={source}", "--keep-checkpoints=100000",
                                 f"--checkpoint-every={middle}"], f"{what} (whole)")
        one = f"step-{middle:010d}"
        folder = tool.fresh_folder(self.work / "resumed")
        if not (source / one).exists():
            self.checks.that(False, f"{what}: no checkpoint {one}")
            return None
        shutil.copytree(source / one, folder / one)
        log = self.work / "resumed.jsonl"
        log.unlink(missing_ok=True)
        resumed = self.train(way.then, [*arguments, f"--checkpoint={folder}", "--resume",
                                        f"--log-json={log}"], what)
        steps = [line["step"] for line in tool.log_lines(log) if "tokens" in line]
        self.checks.that(steps == list(range(middle + 1, self.given.steps + 1)),
                         f"{what}: the resumed run made steps {steps}")
        self.checks.that(whole == resumed, f"{what}: {whole} without the end, {resumed} with it")
        return resumed

    def print(self):
        precisions = self.given.precision
        print(f"| weights after {self.given.steps} steps |", " | ".join(precisions), "|")
        print("|---|" + "---|" * len(precisions), flush=True)
        columns = {precision: [] for precision in precisions}
        for way in FEW if self.given.few else ALL:
            if way.one_process and not self.given.threads_as_ranks:
                continue
            if way != Way() and self.given.rows not in str(way):
                continue
            for precision in precisions:
                columns[precision].append(self.hash(way, precision))
            row = " | ".join(f"`{columns[precision][-1]}`" for precision in precisions)
            print(f"| {way} | {row} |", flush=True)
        for precision, hashes in columns.items():
            self.checks.that(len(set(hashes)) == 1,
                             f"{precision}: {len(set(hashes))} hashes in one column")
        # Else the table shows that the hash sees nothing.
        first = [hashes[0] for hashes in columns.values()]
        self.checks.that(len(set(first)) == len(first), f"precisions with the same weights: {first}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("work")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--few", action="store_true", help="the rows that say most")
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16_sr", "fp8_current"])
    parser.add_argument("--data", help="rows instead of made-up reviews")
    parser.add_argument("--pretrained", help="a folder to start from")
    parser.add_argument("--threads-as-ranks", metavar="PROGRAM", help="for the rows of ranks in one process")
    parser.add_argument("--rows", metavar="TEXT", default="", help="only the first and those with this in their name")
    parser.add_argument("--option", action="append", default=[], help="of train, as --option=--seed=2")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one run")
    given = parser.parse_args()
    launched.skip_without(os.path.abspath(given.program), given.mpirun)
    table = Table(given)
    table.print()
    return table.checks.finish("same bits")


if __name__ == "__main__":
    sys.exit(main())
