"""Ranks that are killed, stopped or hang at any moment: the run ends, and resumed it ends with the
weights of one that was left alone.

    python3 faults.py PROGRAM WORK_FOLDER [--mpirun MPIRUN] [--faults N] [--stops N] [--hangs N]
                      [--ranks N...] [--shard-optimizer] [--seed S]
"""

import argparse
import os
import random
import signal
import sys
import time
from pathlib import Path

import launched
from launched import tool

STEPS = 60
TIME_LIMIT = 3  # seconds for a rank's answer, where one hangs
PATIENCE = 60   # seconds until a run that lost a rank must be over


class Run:
    """One start of all ranks, which goes on from the checkpoint that is there."""

    def __init__(self, given, folder, ranks, *options):
        self.program, self.folder, self.ranks = given.program, folder, ranks
        words = [*tool.THIRTY_STEPS, "--epochs=6", "--threads=1", f"--checkpoint={folder}/steps",
                 "--checkpoint-every=2", "--resume", f"--log-json={folder}/log.jsonl", *options]
        words += ["--shard-optimizer"] if given.shard_optimizer else []
        words += ["--partitions=2", "--microbatches=2"] if given.pipeline else []
        self.seen = self.partial()
        self.started = time.monotonic()
        self.mpirun = launched.start(launched.command(given.program, ranks, words, given.mpirun))
        self.output = self.error = b""
        self.left = ""

    def running(self):
        return self.mpirun.poll() is None

    def log(self):
        return tool.log_lines(self.folder / "log.jsonl")

    def wait_for_step(self, step):
        """Until the log has a step from this one on; False where the run ended before."""
        while self.running():
            if any(line["step"] >= step for line in self.log() if "tokens" in line):
                return True
            time.sleep(0.002)
        return False

    def partial(self):
        """What is being written, or was when a run was killed: folders, told apart by their inodes."""
        found = set()
        for path in (self.folder / "steps").glob("*.partial"):
            try:
                found.add(path.stat().st_ino)
            except FileNotFoundError:
                pass  # it is whole now
        return found

    def wait_for_writing(self, seconds):
        """Until a checkpoint is begun; False where the run, or the time, ended before."""
        end = time.monotonic() + seconds
        while self.running() and time.monotonic() < end:
            if self.partial() - self.seen:
                self.seen |= self.partial()
                return True
        return False

    def processes(self):
        return launched.wait_for_ranks(self.mpirun, self.program, self.ranks)

    def send(self, rank, number):
        return launched.send(self.mpirun, self.program, rank, number)

    def end(self, seconds=PATIENCE):
        """Waits for the end. Returns the exit code, None where it did not come in time."""
        self.output, self.error, self.left = launched.end(self.mpirun, self.program, seconds)
        return None if self.left else self.mpirun.returncode


class Faults:
    def __init__(self, given):
        self.given = given
        self.work = Path(given.work).absolute()
        self.draw = random.Random(given.seed)
        self.checks = tool.Checks()
        folder = tool.fresh_folder(self.work / "alone")
        run = Run(given, folder, given.ranks[0])
        code = run.end(600)
        self.seconds = time.monotonic() - run.started
        self.checks.that(code == 0, f"a run left alone: exit code {code}, {run.error[-1000:]}")
        self.wanted = tool.weights_hash(folder / "log.jsonl")

    def check_end(self, folder, what):
        found = tool.weights_hash(folder / "log.jsonl")
        self.checks.that(found == self.wanted, f"{what}: it ends with other weights, {found}")

    def check_gone(self, processes, what):
        """Nobody is left behind: ranks that are no process, or not the program any more."""
        def alive(process):
            try:
                return os.readlink(f"/proc/{process}/exe") == os.path.realpath(self.given.program)
            except OSError:
                return False
        end = time.monotonic() + 10
        while any(map(alive, processes.values())) and time.monotonic() < end:
            time.sleep(0.05)
        left = {rank: process for rank, process in processes.items() if alive(process)}
        self.checks.that(not left, f"{what}: processes left behind: {left}")
        for process in left.values():
            os.kill(process, signal.SIGKILL)

    def kill(self):
        """Half of them at any time, half of them while a checkpoint is written.

        Open MPI 4.1's mpirun sometimes waits for ever where a rank dies inside MPI_Init ("PMIX ERROR:
        UNREACHABLE"), with no rank left. That is counted and printed, and is not the program's."""
        folder = tool.fresh_folder(self.work / "killed")
        made = writing = ended = launchers = 0
        while made < self.given.faults:
            ranks = self.draw.choice(self.given.ranks)
            rank = self.draw.randrange(ranks)
            # mpirun ends the others; should it miss the death, they notice it themselves.
            run = Run(self.given, folder, ranks, f"--time-limit={PATIENCE // 3}")
            processes = run.processes()
            torn = False
            if made % 2 == 0:
                # A random one of the checkpoints of the run.
                for _ in range(self.draw.randint(1, 6)):
                    torn = run.wait_for_writing(10 * self.seconds)
                    time.sleep(self.draw.random() ** 2 * 0.01 if torn else 0)
            else:
                # Early, mostly: it should take several to get to the end.
                until = run.started + self.draw.random() ** 1.5 * self.seconds
                time.sleep(max(0.0, until - time.monotonic()))
            what = f"kill {made}, rank {rank} of {ranks}{', while writing' if torn else ''}"
            if run.send(rank, signal.SIGKILL):
                made += 1
                writing += torn
            code = run.end()
            launchers += run.left.startswith("mpirun") and "rank" not in run.left
            self.checks.that("rank" not in run.left, f"{what}: the run does not end; there are "
                             f"{run.left}, and they say {run.error[-1000:]}")
            self.check_gone(processes, what)
            names = os.listdir(folder / "steps") if (folder / "steps").exists() else []
            self.checks.that(not [name for name in names if name.endswith(".damaged")],
                             f"{what}: a torn checkpoint: {names}")
            if code == 0:  # it came to its end before
                ended += 1
                self.check_end(folder, what)
                tool.fresh_folder(folder)
        run = Run(self.given, folder, self.draw.choice(self.given.ranks))
        self.checks.that(run.end(600) == 0, f"after the last kill: {run.error[-1000:]}")
        self.check_end(folder, f"after {made} kills")
        print(f"killed {made} ranks, {writing} of them while a checkpoint was written; "
              f"{ended + 1} runs came to their end; {launchers} times only mpirun did not end",
              flush=True)

    def stop(self):
        """SIGTERM to one rank, or SIGUSR1 to mpirun, which passes it on: all end behind the same step,
        with a checkpoint."""
        stopped = 0
        for number in range(self.given.stops):
            folder = tool.fresh_folder(self.work / "stopped")
            ranks = self.draw.choice(self.given.ranks)
            rank = self.draw.randrange(ranks)
            run = Run(self.given, folder, ranks)
            run.wait_for_step(self.draw.randint(1, STEPS // 2))
            if number % 2 == 0:
                what = f"stop {number}, rank {rank} of {ranks}"
                sent = run.send(rank, signal.SIGTERM)
            else:
                what = f"stop {number}, mpirun of {ranks}"
                sent = run.running()
                run.mpirun.send_signal(signal.SIGUSR1)
            code = run.end()
            self.checks.that(code == 0, f"{what}: exit code {code}, {run.error[-1000:]}")
            last = run.log()[-1]
            if sent and last.get("interrupted"):
                stopped += 1
                names = os.listdir(folder / "steps")
                self.checks.that(f"step-{last['steps']:010d}" in names,
                                 f"{what}: no checkpoint of step {last['steps']} in {names}")
                self.checks.that(b"--resume" in run.output, f"{what}: says {run.output[-200:]}")
                run = Run(self.given, folder, self.draw.choice(self.given.ranks))
                self.checks.that(run.end(600) == 0, f"{what}, resumed: {run.error[-1000:]}")
            self.check_end(folder, what)
        self.checks.that(stopped > 0 or not self.given.stops, "no stop came while a run trained")
        print(f"stopped {stopped} of {self.given.stops} runs, half through one rank, half through mpirun", flush=True)

    def hang(self):
        """A rank that is there and does not answer (SIGSTOP) is noticed by the others."""
        slowest = 0.0
        for number in range(self.given.hangs):
            folder = tool.fresh_folder(self.work / "hung")
            ranks = self.draw.choice([ranks for ranks in self.given.ranks if ranks > 1])
            rank = self.draw.randrange(ranks)
            run = Run(self.given, folder, ranks, f"--time-limit={TIME_LIMIT}")
            run.wait_for_step(self.draw.randint(1, STEPS // 4))
            processes = run.processes()
            what = f"hang {number}, rank {rank} of {ranks}"
            if not run.send(rank, signal.SIGSTOP):
                continue
            start = time.monotonic()
            code = run.end()
            took = time.monotonic() - start
            slowest = max(slowest, took)
            self.checks.that(code == 1, f"{what}: exit code {code}, {run.error[-1000:]}")
            lines = launched.error_lines(run.error)
            self.checks.that(any("[parallel.timeout]" in line for line in lines),
                             f"{what}: no rank says parallel.timeout: {lines}")
            self.checks.that(took < TIME_LIMIT + 15, f"{what}: it took {took:.1f} s")
            self.check_gone(processes, what)
            run = Run(self.given, folder, self.draw.choice(self.given.ranks))
            self.checks.that(run.end(600) == 0, f"{what}, resumed: {run.error[-1000:]}")
            self.check_end(folder, what)
        print(f"{self.given.hangs} ranks hung; with a limit of {TIME_LIMIT} s the slowest run was "
              f"over after {slowest:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("work")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--hangs", type=int, default=5)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4],
                        help="each start has one of these numbers")
    parser.add_argument("--shard-optimizer", action="store_true", help="all ranks write checkpoints")
    parser.add_argument("--pipeline", action="store_true", help="two stages, further ranks are replicas")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.program = os.path.abspath(given.program)
    launched.skip_without(given.program, given.mpirun)
    faults = Faults(given)
    faults.kill()
    faults.stop()
    faults.hang()
    return faults.checks.finish(f"faults, seed {given.seed}"
                                + (", sharded optimizer" if given.shard_optimizer else "")
                                + (", pipelines" if given.pipeline else ""))


if __name__ == "__main__":
    sys.exit(main())
