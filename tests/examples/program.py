"""Running bert_classifier from tests: small data, a small model, and what a run left behind.

Whoever imports this module leaves no process behind: all that it has started end with it, also when it fails.
"""

import atexit
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

# 30 steps in a fraction of a second.
THIRTY_STEPS = ["train", "--vocab-size=300", "--max-length=16", "--quiet", "--reviews=100",
                "--batch-size=10", "--epochs=3"]


# Each process inherits this variable, also one with another session or another parent.
MARK = ("SOMA_TEST_PROCESS", f"{os.getpid()}.{time.monotonic_ns()}")
os.environ[MARK[0]] = MARK[1]


class Process(subprocess.Popen):
    """A process that is killed if its block fails. Popen's own end of a block would wait for it, perhaps for ever."""

    def __exit__(self, kind, value, trace):
        if kind is not None:
            self.kill()
        return super().__exit__(kind, value, trace)


def started_processes():
    """The ids of the processes that this one and its children have started and that still run."""
    found, mark = [], "=".join(MARK).encode()
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and int(entry) != os.getpid() and \
                    mark in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                found.append(int(entry))
        except OSError:
            continue  # it has just ended, or belongs to somebody else
    return found


def end_processes():
    end = time.monotonic() + 30  # a process may start others before it is killed
    while (left := started_processes()) and time.monotonic() < end:
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(0.01)


atexit.register(end_processes)
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def rows(count=60):
    """Labelled rows, tab-separated: two classes that one word tells apart."""
    words = ["film", "plot", "actor", "scene", "music", "ending", "story"]
    lines = []
    for i in range(count):
        label = i % 2
        lines.append(f"a {'good' if label else 'dull'} {words[i % 7]} with {words[i // 7 % 7]} "
                     f"number {i}\t{label}\n")
    return "".join(lines).encode()


def environment(extra=None):
    """This process's, without what would make a training job of a run."""
    result = {key: value for key, value in os.environ.items() if not key.startswith("SM_")}
    result.update(extra or {})
    return result


def run(program, arguments, folder=None, extra=None, text=b"", timeout=120):
    return subprocess.run([program, *arguments], cwd=folder, env=environment(extra), input=text,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)


def must_run(program, arguments, **settings):
    result = run(program, arguments, **settings)
    if result.returncode != 0:
        raise AssertionError(f"{arguments}: exit code {result.returncode}, {result.stderr[-500:]}")
    return result


def fresh_folder(path):
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def contents(folder):
    """Each path below a folder, and a hash of what is in it."""
    result = {}
    for path in sorted(Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        result[name] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
    return result


def log_lines(path):
    """The whole lines of a log of JSON lines."""
    text = Path(path).read_text() if Path(path).exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1] if line]


def weights_hash(log):
    """What the last line of a finished run's log says."""
    last = log_lines(log)[-1]
    assert last.get("event") == "done" and not last["interrupted"], last
    return last["weights_hash"]


class Checks:
    """Counts what holds and what does not; prints what does not."""

    def __init__(self):
        self.passed = self.failed = 0

    def that(self, holds, message):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print("FAILED:", message, flush=True)

    def finish(self, name):
        print(f"{name}: {self.passed} checks passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0
