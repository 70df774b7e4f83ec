"""A signal ends each command soon, wherever it is, and nothing that was learnt is lost; nor does a
log that cannot be written cost anything.

    python3 stops.py PROGRAM WORK_FOLDER
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import program as tool

TRAIN = ["train", "--vocab-size=300", "--max-length=16", "--threads=1"]
# An evaluation of so many rows takes far longer than anybody waits for here.
MANY = 60_000


class Run:
    """A run whose standard error is read while it goes on."""

    def __init__(self, program, arguments, folder):
        self.error_file = folder / "error.txt"
        with open(self.error_file, "wb") as error:
            self.process = tool.Process([program, *arguments], cwd=folder, stderr=error,
                                        stdout=subprocess.PIPE, env=tool.environment())

    def error(self):
        return self.error_file.read_text()

    def wait_for(self, text):
        """Until it has said that; False where it ended before."""
        while self.process.poll() is None:
            if text in self.error():
                return True
            time.sleep(0.002)
        return False

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        try:
            output, _ = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            return None, b""
        return self.process.returncode, output


def checkpoints(folder):
    return sorted(path.name for path in folder.glob("step-*"))


def check_evaluation(program, work, checks):
    """All steps are made, and a large file is measured: the steps are kept, resumed it is measured."""
    folder = tool.fresh_folder(work / "evaluation")
    (folder / "rows.tsv").write_bytes(tool.rows(60))
    (folder / "large.tsv").write_bytes(tool.rows(MANY))
    words = [*TRAIN, "--data=rows.tsv", "--dev=large.tsv", "--epochs=1", "--batch-size=30",
             "--log-json=log.jsonl"]
    for name, options in [("a checkpoint", ["--checkpoint=steps"]), ("a model", ["--output=model"])]:
        run = Run(program, words + options, folder)
        checks.that(run.wait_for("step 2/2"), f"{name}: {run.error()}")
        code, output = run.stop()
        checks.that(code == 0, f"{name}: exit code {code}, {run.error()}")
        events = [line["event"] for line in tool.log_lines(folder / "log.jsonl") if "event" in line]
        checks.that(events == ["done"], f"{name}: an evaluation was not cut, {events}")
        checks.that("validation after" not in run.error(), f"{name}: says {run.error()}")
    checks.that(checkpoints(folder / "steps") == ["step-0000000002"], "no checkpoint of the steps")
    checks.that((folder / "model" / "model.safetensors").exists(), "no model of the steps")
    # Resumed with fewer rows, it measures them.
    (folder / "large.tsv").write_bytes(tool.rows(40))
    result = tool.must_run(program, [*words, "--checkpoint=steps", "--resume", "--output=model"],
                           folder=folder)
    checks.that(b"40 validation" in result.stdout, f"resumed: {result.stdout}")


def check_middle(program, work, checks):
    """In the middle of training, and with nowhere to keep what was learnt."""
    for name, options, earlier, code, model in [
            ("with a checkpoint", ["--checkpoint=steps", "--output=model"], False, 0, False),
            ("a new model", ["--output=model"], False, 1, True),
            ("an earlier model", ["--output=model"], True, 1, False),
            ("nothing to keep", [], False, 1, False)]:
        folder = tool.fresh_folder(work / "middle")
        if earlier:
            tool.must_run(program, [*tool.THIRTY_STEPS, "--max-steps=1", "--output=model"],
                          folder=folder)
        before = tool.contents(folder / "model") if earlier else {}
        run = Run(program, [*TRAIN, "--reviews=200", "--epochs=100000", *options], folder)
        run.wait_for("step ")
        found, _ = run.stop(signal.SIGINT)
        checks.that(found == code, f"{name}: exit code {found}, {run.error()}")
        last = run.error().splitlines()[-1]
        checks.that(last.endswith("[cli.interrupted]") == (code == 1), f"{name}: says {last}")
        now = tool.contents(folder / "model") if (folder / "model").exists() else {}
        checks.that(now == before if not model else "model.safetensors" in now,
                    f"{name}: the model's folder has {sorted(now)}")
        if model:
            answer = tool.run(program, ["predict", "--model=model"], folder=folder, text=b"good\n")
            checks.that(answer.returncode == 0, f"{name}: the model, {answer.stderr}")


def check_reading(program, work, checks):
    """Rows that take long to read, be it to train, to measure, or a row at a time."""
    folder = tool.fresh_folder(work / "reading")
    (folder / "few.tsv").write_bytes(tool.rows(60))
    tool.must_run(program, [*TRAIN, "--data=few.tsv", "--max-steps=1", "--output=model"],
                  folder=folder)
    # Half a terabyte, nearly all of it a hole: zero bytes are one bad row, read to its end.
    with open(folder / "rows.tsv", "wb") as rows:
        rows.write(tool.rows(100))
        rows.truncate(1 << 39)
    for name, words in [
            ("train", [*TRAIN, "--data=rows.tsv", "--skip-bad-rows"]),
            ("stream", [*TRAIN, "--data=rows.tsv", "--skip-bad-rows", "--stream=10"]),
            ("evaluate", ["evaluate", "--model=model", "--data=rows.tsv", "--skip-bad-rows"]),
            ("reviews", [*TRAIN, "--reviews=10000000"])]:
        run = Run(program, words, folder)
        time.sleep(0.3)
        code, output = run.stop(signal.SIGINT)
        checks.that(code == 1 and run.error().endswith("[cli.interrupted]\n"),
                    f"{name}: exit code {code}, {run.error()}, {output}")


def in_small_folder(script, folder, *arguments):
    """Runs a shell script where ./small is a file system of 64 KiB; None: cannot be had here."""
    (folder / "small").mkdir()
    mount = "mount -t tmpfs -o size=64k none small || exit 99; "
    try:
        result = subprocess.run(["unshare", "-m", "sh", "-c", mount + script, "sh", *arguments],
                                cwd=folder, env=tool.environment(), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=120)
    except FileNotFoundError:
        return None
    return None if result.returncode == 99 or b"unshare" in result.stderr else result


def check_full_disk(program, work, checks):
    """The disk of a log gets full: a line says so, a checkpoint is there, and the run goes on."""
    plain = tool.fresh_folder(work / "plain")
    words = [*tool.THIRTY_STEPS, "--output=model"]
    words.remove("--quiet")
    tool.must_run(program, [*words, "--log-json=log.jsonl"], folder=plain)
    wanted = tool.contents(plain / "model")
    # The room holds the lines of some steps, or nothing, and no trace.
    for room, option, path in [(5, "--log-json", "small/log.jsonl"),
                               (5, "--tensorboard", "small/events"),
                               (5, "--profile", "small/trace.json"),
                               (0, "--log-json", "small/log.jsonl"),
                               (0, "--tensorboard", "small/events")]:
        folder = tool.fresh_folder(work / "full")
        result = in_small_folder(
            f'dd if=/dev/zero of=small/fill bs=1k count={64 - room} 2>/dev/null; "$@"', folder,
            program, *words, f"{option}={path}", "--checkpoint=steps", "--keep-checkpoints=50")
        if result is None:
            print(f"skipped: a full disk ({option}), a file system cannot be mounted here")
            continue
        said = [line for line in result.stderr.decode().splitlines() if "without it" in line]
        checks.that(result.returncode == 0, f"{option}: {result.returncode}, {result.stderr}")
        checks.that(len(said) == 1 and path.split("/")[1].split(".")[0] in said[0],
                    f"{option}: says {said}")
        checks.that(tool.contents(folder / "model") == wanted, f"{option}: another model")
        made = checkpoints(folder / "steps")
        checks.that(made[-1] == "step-0000000030" and (room == 0 or len(made) == 2),
                    f"{option}: checkpoints {made}")


def main():
    program, work = os.path.abspath(sys.argv[1]), Path(sys.argv[2]).absolute()
    checks = tool.Checks()
    check_evaluation(program, work, checks)
    check_middle(program, work, checks)
    check_reading(program, work, checks)
    check_full_disk(program, work, checks)
    return checks.finish("stops")


if __name__ == "__main__":
    sys.exit(main())
