"""A run that was interrupted, however, and resumed ends with the bits of one that was not.

    python3 resume.py PROGRAM WORK_FOLDER [--kills N] [--stops N] [--seed S]
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import program as tool

STEPS = 30


def train(folder, *options):
    return [*tool.THIRTY_STEPS, f"--log-json={folder}/log.jsonl", *options]


def every_step(program, work, precision, steps, checks):
    """From the checkpoint of each step alone. Returns the hash, and how long a run takes."""
    name = f"every_step_{precision}"
    plain = tool.fresh_folder(work / f"{name}_plain")
    options = [f"--precision={precision}"]
    start = time.monotonic()
    tool.must_run(program, train(plain, *options))
    seconds = time.monotonic() - start
    wanted = tool.weights_hash(plain / "log.jsonl")
    steps_made = [line["step"] for line in tool.log_lines(plain / "log.jsonl") if "tokens" in line]
    checks.that(steps_made == list(range(1, STEPS + 1)), f"steps of {precision}: {steps_made}")

    source = tool.fresh_folder(work / name)
    tool.must_run(program, train(source, *options, f"--checkpoint={source}/checkpoint",
                                 "--checkpoint-every=1", "--keep-checkpoints=100"))
    checks.that(tool.weights_hash(source / "log.jsonl") == wanted,
                f"{precision}: writing checkpoints changes the run")
    for step in steps:
        folder = tool.fresh_folder(work / f"{name}_resumed")
        one = f"step-{step:010d}"
        shutil.copytree(source / "checkpoint" / one, folder / "checkpoint" / one)
        # Another number of threads must not matter either.
        tool.must_run(program, train(folder, *options, f"--checkpoint={folder}/checkpoint",
                                     "--resume", f"--threads={1 + step % 2}"))
        log = tool.log_lines(folder / "log.jsonl")
        first = next(line["step"] for line in log if "tokens" in line)
        checks.that(first == step + 1, f"{precision}: resumed at {first}, not behind {step}")
        checks.that(tool.weights_hash(folder / "log.jsonl") == wanted,
                    f"{precision}: resumed after step {step}, it ends with other weights")
    return wanted, seconds


def start(program, folder, wait):
    """A run with checkpoints that goes on from what is there, ended early by the caller."""
    arguments = train(folder, f"--checkpoint={folder}/checkpoint", "--checkpoint-every=3",
                      "--resume", f"--output={folder}/model")
    running = tool.Process([program, *arguments], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, env=tool.environment())
    time.sleep(wait)
    return running


def check_terminated(program, work, count, wanted, draw, checks):
    """SIGTERM: the step is finished, a checkpoint written, and the exit code 0."""
    interrupted = 0
    for number in range(count):
        folder = tool.fresh_folder(work / "terminated")
        # The program handles signals when there is a log; some come before the first step.
        lines = draw.randrange(STEPS - 5) if number else 0
        running = start(program, folder, 0)
        log = folder / "log.jsonl"
        while running.poll() is None and (not log.exists() or len(tool.log_lines(log)) < lines):
            time.sleep(0.001)
        running.send_signal(signal.SIGTERM)
        output, error = running.communicate(timeout=60)
        checks.that(running.returncode == 0,
                    f"SIGTERM {number}: exit code {running.returncode}, {error}")
        last = tool.log_lines(folder / "log.jsonl")[-1]
        checks.that(last.get("event") == "done", f"SIGTERM {number}: the log ends with {last}")
        if last.get("interrupted"):
            interrupted += 1
            checks.that(b"--resume" in output, f"SIGTERM {number}: says {output[-200:]}")
            checks.that(not (folder / "model").exists(), f"SIGTERM {number}: a half-trained model")
            names = sorted(path.name for path in (folder / "checkpoint").iterdir())
            checks.that(f"step-{last['steps']:010d}" in names,
                        f"SIGTERM {number}: no checkpoint of step {last['steps']} in {names}")
            output, error = start(program, folder, 0).communicate(timeout=60)
        checks.that(tool.weights_hash(folder / "log.jsonl") == wanted,
                    f"SIGTERM {number}: resumed, it ends with other weights")
    checks.that(interrupted > 0, "no SIGTERM came while a run trained")


def check_killed(program, work, count, wanted, seconds, draw, checks):
    """SIGKILL at any moment, again and again: nothing torn, and the end is the same."""
    folder = tool.fresh_folder(work / "killed")
    killed = 0
    while killed < count:
        # Early, mostly: it should take several to get to the end.
        running = start(program, folder, draw.random() ** 2 * seconds)
        ended = running.poll() is not None
        if not ended:
            running.send_signal(signal.SIGKILL)
            killed += 1
        _, error = running.communicate(timeout=60)
        checks.that(running.returncode in (0, -signal.SIGKILL),
                    f"after {killed} kills: exit code {running.returncode}, {error}")
        names = [path.name for path in (folder / "checkpoint").glob("*")]
        checks.that(not [name for name in names if name.endswith(".damaged")],
                    f"a torn checkpoint after {killed} kills: {names}")
        if ended:
            checks.that(tool.weights_hash(folder / "log.jsonl") == wanted,
                        f"after {killed} kills it ends with other weights")
            tool.fresh_folder(folder)
    _, error = start(program, folder, 0).communicate(timeout=60)
    checks.that(tool.weights_hash(folder / "log.jsonl") == wanted,
                f"after {killed} kills it ends with other weights, {error}")
    left = [path.name for path in folder.rglob("*.partial")]
    checks.that(not left, f"left over: {left}")


def check_events(program, work, checks):
    """A resumed run's events say from which step on those of earlier files do not count."""
    folder = tool.fresh_folder(work / "events")
    arguments = train(folder, f"--checkpoint={folder}/checkpoint", "--checkpoint-every=10",
                      "--resume", f"--tensorboard={folder}/events")
    for first in [1, 11]:
        tool.must_run(program, arguments)
        newest = sorted((folder / "events").iterdir())[-1].read_bytes()
        start = bytes([0x10, first, 0x3a, 2, 0x08, 1])  # step, session_log {status: START}
        checks.that(start in newest, f"events do not begin at step {first}")
        for step in [20, 30]:
            shutil.rmtree(folder / "checkpoint" / f"step-{step:010d}")


def check_longer(program, work, checks):
    """A run goes on for longer with the defaults of its first part, and with the validation rows that decide."""
    folder = tool.fresh_folder(work / "longer")
    (folder / "rows.tsv").write_bytes(tool.rows(200))
    (folder / "dev.tsv").write_bytes(tool.rows(20))
    (folder / "other.tsv").write_bytes(tool.rows(22))
    base = ["train", "--vocab-size=200", "--max-length=16", "--quiet", "--batch-size=5", "--threads=1",
            f"--data={folder}/rows.tsv", f"--dev={folder}/dev.tsv"]

    def run(name, *options, resume=False):
        kept = [f"--checkpoint={folder}/{name}", *(["--resume"] if resume else [])]
        result = tool.run(program, [*base, f"--log-json={folder}/{name}.jsonl", *kept, *options])
        return result.returncode, result.stderr.decode()

    # 40 steps in an epoch: a twentieth of them are 2, of the longer run 4.
    for schedule in ("linear", "constant", "cosine"):
        for epochs in (1, 2):
            code, said = run(schedule, f"--schedule={schedule}", f"--epochs={epochs}", resume=epochs == 2)
            checks.that(code == 0, f"{schedule}, {epochs} epochs: {said}")
    # The rates that the log has: 1, then half of it after each two steps; none of an evaluation that is worse.
    code, said = run("step", "--schedule=step", "--schedule-factor=0.5", "--schedule-every=2", "--learning-rate=1",
                     "--warmup-steps=0", "--max-steps=6", "--clip=1e-9")
    rates = [event["learning_rate"] for event in map(json.loads, (folder / "step.jsonl").read_text().splitlines())
             if "learning_rate" in event]
    checks.that(code == 0 and rates == [1, 1, 0.5, 0.5, 0.25, 0.25], f"rates of a step schedule: {rates}, {said}")
    code, said = run("plateau", "--schedule=plateau", "--schedule-patience=1", "--schedule-threshold=0.99",
                     "--schedule-factor=0.5", "--learning-rate=1e-3", "--warmup-steps=0", "--max-steps=4", "--evaluate-every=1")
    rates = [event["learning_rate"] for event in map(json.loads, (folder / "plateau.jsonl").read_text().splitlines())
             if "learning_rate" in event]
    checks.that(code == 0 and rates[0] == 1e-3 and rates[-1] < 1e-3, f"rates of a plateau: {rates}, {said}")
    code, said = run("whole", "--schedule=constant", "--epochs=2", "--warmup-steps=2")
    checks.that(code == 0, f"a whole run: {said}")
    checks.that(tool.weights_hash(folder / "constant.jsonl") == tool.weights_hash(folder / "whole.jsonl"),
                "a run that is resumed for longer does not keep its warm-up")
    code, said = run("constant", "--schedule=constant", "--epochs=3", "--warmup-steps=6", resume=True)
    checks.that(code == 1 and "schedule.warmup" in said, f"another warm-up that was typed: {code}, {said}")

    for option in ("--keep-best", "--patience=5"):
        name = option.strip("-").split("=")[0]
        code, said = run(name, "--epochs=1", option)
        checks.that(code == 0, f"{option}: {said}")
        code, said = run(name, "--epochs=2", option, f"--dev={folder}/other.tsv", resume=True)
        checks.that(code == 1 and "validation.content" in said and "[checkpoint.identity]" in said,
                    f"{option}, resumed with other validation rows: {code}, {said}")
        code, said = run(name, "--epochs=2", option, resume=True)
        checks.that(code == 0, f"{option}, resumed: {said}")
    code, said = run("linear", "--epochs=3", "--schedule=linear", f"--dev={folder}/other.tsv", resume=True)
    checks.that(code == 0, f"other validation rows that decide nothing: {said}")


def check_optimizers(program, work, checks):
    """Every optimizer, with its options and an average, goes on to the same bits, and from none other's checkpoint."""
    optimizers = {"adamw": ["--beta1=0.8", "--beta2=0.99", "--epsilon=1e-7"], "adam": ["--weight-decay=0.1"],
                  "lamb": ["--epsilon=1e-7"], "sgd": ["--momentum=0.9", "--nesterov", "--learning-rate=0.1"],
                  "rmsprop": ["--alpha=0.9", "--momentum=0.5"], "adagrad": ["--rate-decay=0.1", "--initial-square=0.1"],
                  "adadelta": ["--rho=0.8", "--learning-rate=1"], "radam": ["--beta2=0.9"],
                  "adafactor": ["--update-clip=0.5", "--beta2-decay=-0.7", "--learning-rate=0.01"]}
    hashes, plain = {}, {}
    for name, options in optimizers.items():
        folder = tool.fresh_folder(work / f"optimizer_{name}")

        def run(log, *more):
            result = tool.run(program, [*tool.THIRTY_STEPS, f"--log-json={folder}/{log}.jsonl", f"--optimizer={name}",
                                        *options, *more])
            checks.that(result.returncode == 0, f"{name}: {result.stderr.decode()}")
            return tool.weights_hash(folder / f"{log}.jsonl")

        average = ["--average=0.9", "--average-from=5", "--average-every=3"]
        plain[name] = run("plain")
        kept = [f"--checkpoint={folder}/steps", "--checkpoint-every=11", "--keep-checkpoints=9", *average]
        hashes[name] = run("whole", *kept)
        shutil.rmtree(folder / "steps" / "step-0000000030")
        shutil.rmtree(folder / "steps" / "step-0000000022")
        checks.that(run("second", *kept, "--resume") == hashes[name], f"{name}: other weights after a break")
    checks.that(len({*hashes.values(), *plain.values()}) == 2 * len(optimizers), f"equal weights: {hashes}, {plain}")
    # The options reach the optimizer, and another optimizer is refused by name.
    folder = work / "optimizer_sgd"
    for other in (["--optimizer=adam"], ["--optimizer=sgd", "--momentum=0.8", "--nesterov"]):
        result = tool.run(program, [*tool.THIRTY_STEPS, *other, "--learning-rate=0.1", f"--checkpoint={folder}/steps",
                                    "--resume", "--average=0.9", "--average-from=5", "--average-every=3"])
        said = result.stderr.decode()
        checks.that(result.returncode == 1 and "[checkpoint.identity]" in said and "optimizer" in said,
                    f"{other}: {result.returncode}, {said}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("work")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--stops", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stride", type=int, default=1, help="of the steps to resume after")
    given = parser.parse_args()
    program, work = os.path.abspath(given.program), Path(given.work).absolute()
    draw = random.Random(given.seed)
    checks = tool.Checks()
    steps = range(1, STEPS, given.stride)
    wanted, seconds = every_step(program, work, "fp32", steps, checks)
    every_step(program, work, "bf16_sr", [1, 13, 29], checks)
    check_events(program, work, checks)
    check_longer(program, work, checks)
    check_optimizers(program, work, checks)
    check_terminated(program, work, given.stops, wanted, draw, checks)
    check_killed(program, work, given.kills, wanted, seconds, draw, checks)
    return checks.finish(f"resume, seed {given.seed}")


if __name__ == "__main__":
    sys.exit(main())
