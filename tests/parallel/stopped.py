"""A signal is noticed by ranks that read, evaluate or wait for each other; what was learnt is kept.

    python3 stopped.py PROGRAM WORK_FOLDER [--mpirun MPIRUN]
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import launched
from launched import tool

TRAIN = ["train", "--vocab-size=300", "--max-length=16", "--threads=1"]


class Stops:
    def __init__(self, given):
        self.program, self.mpirun = given.program, given.mpirun
        self.work = Path(given.work).absolute()
        self.checks = tool.Checks()

    def run(self, name, options, stop, when=None):
        """Two ranks, told to stop when the log has a line with that, or once they are processes.
        Returns exit code, output, the messages, and the checkpoints."""
        folder = tool.fresh_folder(self.work / "run")
        words = [*TRAIN, *options, f"--log-json={folder}/log.jsonl", f"--checkpoint={folder}/steps"]
        running = launched.start(launched.command(self.program, 2, words, self.mpirun))
        launched.wait_for_ranks(running, self.program, 2)
        end = time.monotonic() + 60
        while when and running.poll() is None and time.monotonic() < end:
            if any(when(line) for line in tool.log_lines(folder / "log.jsonl")):
                break
            time.sleep(0.002)
        stop(running)
        output, error, left = launched.end(running, self.program)
        self.checks.that(not left, f"{name}: it does not end, {left}")
        steps = sorted(path.name for path in (folder / "steps").glob("step-*"))
        events = [line["event"] for line in tool.log_lines(folder / "log.jsonl") if "event" in line]
        return running.returncode, launched.error_lines(error), steps, events, output

    def check_evaluation(self):
        """The steps are made, and a large file is measured; one rank is told, or all of them."""
        (self.work / "rows.tsv").write_bytes(tool.rows(60))
        (self.work / "large.tsv").write_bytes(tool.rows(60_000))
        options = [f"--data={self.work}/rows.tsv", f"--dev={self.work}/large.tsv", "--epochs=1",
                   "--batch-size=30"]
        for name, stop in [
                ("all in an evaluation", lambda running: running.send_signal(signal.SIGUSR1)),
                ("one in an evaluation", lambda running: self.send(running, 1, signal.SIGTERM))]:
            code, errors, steps, events, output = self.run(
                name, options, stop, when=lambda line: line.get("step") == 2)
            self.checks.that(code == 0 and not errors, f"{name}: exit code {code}, {errors}")
            self.checks.that(steps == ["step-0000000002"], f"{name}: checkpoints {steps}")
            self.checks.that(events == ["done"] and b"--resume" in output,
                             f"{name}: events {events}, {output[-300:]}")

    def check_reading(self):
        """Nothing is learnt yet: rank 0 says so, and all end."""
        with open(self.work / "long.tsv", "wb") as rows:
            rows.write(tool.rows(100))
            rows.truncate(1 << 39)  # a hole, which takes minutes to read

        def stop(running):
            time.sleep(0.3)
            self.send(running, 0, signal.SIGTERM)
        code, errors, steps, _, _ = self.run(
            "reading", [f"--data={self.work}/long.tsv", "--skip-bad-rows"], stop)
        self.checks.that(code == 1 and not steps, f"reading: exit code {code}, {steps}")
        self.checks.that(len(errors) == 1 and errors[0].endswith("[cli.interrupted]"),
                         f"reading: says {errors}")

    def check_hanging(self):
        """A rank hangs: the other one keeps the last whole step, long before the time limit."""
        def stop(running):
            self.send(running, 1, signal.SIGSTOP)
            time.sleep(0.5)  # until rank 0 waits
            self.send(running, 0, signal.SIGTERM)
        code, errors, steps, _, _ = self.run(
            "hanging", ["--reviews=200", "--epochs=100000"], stop,
            when=lambda line: line.get("step", 0) > 5)
        self.checks.that(code == 1 and len(steps) == 1, f"hanging: exit code {code}, {steps}")
        self.checks.that(len(errors) == 1 and errors[0].endswith("[runtime.stopped]"),
                         f"hanging: says {errors}")

    def send(self, running, rank, number):
        sent = launched.send(running, self.program, rank, number)
        self.checks.that(sent, f"rank {rank} is gone before its signal {number}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("work")
    parser.add_argument("--mpirun", default="mpirun")
    given = parser.parse_args()
    given.program = os.path.abspath(given.program)
    launched.skip_without(given.program, given.mpirun)
    stops = Stops(given)
    tool.fresh_folder(stops.work)
    stops.check_evaluation()
    stops.check_reading()
    stops.check_hanging()
    return stops.checks.finish("stopped ranks")


if __name__ == "__main__":
    sys.exit(main())
