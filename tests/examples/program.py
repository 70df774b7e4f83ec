"""Running bert_classifier from tests: small data, a small model, and what a run left behind."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

# 30 steps in a fraction of a second.
THIRTY_STEPS = ["train", "--vocab-size=300", "--max-length=16", "--quiet", "--reviews=100",
                "--batch-size=10", "--epochs=3"]


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
