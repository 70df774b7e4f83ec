"""How bert_classifier is started as several ranks: what it refuses, who prints, who is heard.

    python3 launch.py PROGRAM WORK_FOLDER [MPIRUN]

What the environment alone refuses is checked without mpirun as well.
"""

import os
import shutil
import sys
from pathlib import Path

import launched
from launched import tool

TRAIN = [*tool.THIRTY_STEPS, "--max-steps=6", "--threads=1"]
OF_FILE = [option for option in TRAIN if not option.startswith("--reviews")]
TORCHRUN = {"WORLD_SIZE": "2", "RANK": "1"}
SERVICE = {"SM_HOSTS": '["algo-1", "algo-2"]', "SM_CURRENT_HOST": "algo-2"}
SRUN = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_NTASKS": "4"}


def check_refused(program, checks):
    """Several processes that do not know of each other: exit code 2, and the line that helps."""
    for name, extra, starts in [
            ("torchrun", TORCHRUN, "mpirun -n 2 "),
            ("torchrun on several hosts", {**TORCHRUN, "LOCAL_WORLD_SIZE": "1"},
             "mpirun -n 2 --hostfile HOSTS "),
            ("service", SERVICE, "mpirun -n 2 --host algo-1,algo-2 "),
            ("srun", SRUN, "mpirun -n 4 "),
            ("srun of a part", {**SRUN, "SLURM_STEP_NUM_TASKS": "2"}, "mpirun -n 2 "),
            ("two of them", {**TORCHRUN, **SRUN}, "mpirun -n 4 ")]:
        result = launched.run([program, *OF_FILE, "--data=my rows.tsv"], extra=extra)
        wanted = f"{starts}{program} {' '.join(OF_FILE)} '--data=my rows.tsv' [cli.launch]\n"
        text = result.stderr.decode()
        checks.that(result.returncode == 2, f"{name}: exit code {result.returncode}, {text}")
        checks.that(text.endswith(wanted) and text.count("\n") == 1,
                    f"{name}: says {text!r}, wanted {wanted!r} at the end")
    for name, extra in [("torchrun of one", {"WORLD_SIZE": "1", "RANK": "0"}),
                        ("one host", {"SM_HOSTS": '["algo-1"]', "SM_CURRENT_HOST": "algo-1"}),
                        ("a batch script", {"SLURM_NTASKS": "4", "SLURM_PROCID": "0"})]:
        result = launched.run([program, *TRAIN], extra=extra)
        checks.that(launched.printed_hash(result) is not None, f"{name}: {result.stderr}")
    # Several processes refuse a command that belongs to one process.
    for command in (["evaluate", "--data=none"], ["predict"], ["serve"]):
        result = launched.run([program, *command, "--model=none"], extra=TORCHRUN)
        text = result.stderr.decode()
        checks.that(result.returncode == 2 and text.endswith("start it by itself [cli.launch]\n"),
                    f"{command[0]} of two: {result.returncode}, {text}")
    result = launched.run([program, *TRAIN], extra={**SERVICE, "SM_HOSTS": "algo-1"})
    checks.that(result.returncode == 2 and result.stderr.endswith(b"[cli.usage]\n"),
                f"SM_HOSTS no list: {result.returncode}, {result.stderr}")


def check_job(program, folder, checks):
    """A training job on two hosts: its arguments are in the line, the failure where it belongs."""
    extra = {**SERVICE, "SM_CHANNEL_TRAIN": str(folder / "train"), "SM_MODEL_DIR": "/m",
             "SM_OUTPUT_DATA_DIR": str(folder / "output" / "data"), "SM_HPS": '{"epochs": 2}'}
    (folder / "output").mkdir()
    result = launched.run([program], extra=extra)
    text = result.stderr.decode()
    line = (f"mpirun -n 2 --host algo-1,algo-2 {program} train --data={folder}/train --output=/m "
            f"--log-json={folder}/output/data/log.jsonl --epochs=2 [cli.launch]\n")
    checks.that(result.returncode == 2 and text.endswith(line), f"a job: {text}, wanted {line}")
    failure = folder / "output" / "failure"
    checks.that(failure.exists() and failure.read_text() == text, "a job's failure")


def check_ranks(program, mpirun, folder, checks):
    def several(ranks, *options, extra=None, train=TRAIN):
        return launched.run(launched.command(program, ranks, [*train, *options], mpirun),
                            extra=extra)

    alone = launched.printed_hash(launched.run([program, *TRAIN]))
    for ranks, options, train in [(3, [], TRAIN), (2, ["--shards=1"], TRAIN),
                                  (16, ["--data=nowhere.tsv"], OF_FILE)]:
        result = several(ranks, *options, train=train)
        lines = launched.error_lines(result.stderr)
        checks.that(result.returncode == 1, f"{ranks} ranks: exit code {result.returncode}")
        checks.that(len(lines) == 1 and lines[0].startswith("rank 0: ") and
                    lines[0].endswith("[parallel.ranks]"), f"{ranks} ranks: says {lines}")
    result = several(1, extra=TORCHRUN)
    lines = launched.error_lines(result.stderr)
    checks.that(result.returncode == 2 and len(lines) == 1 and "MPI reports one" in lines[0],
                f"mpirun of one and torchrun of two: {result.returncode}, {lines}")

    # Only rank 0 prints and writes; every line of the log says whose it is.
    outputs = {"--output": "model", "--log-json": "log.jsonl", "--tensorboard": "events",
               "--confusion": "table.csv", "--profile": "trace.json", "--checkpoint": "steps"}
    result = several(2, *(f"{name}={folder}/{path}" for name, path in outputs.items()))
    checks.that(launched.printed_hash(result) == alone,
                f"two ranks: {result.stdout}, {result.stderr}, wanted {alone}")
    for path in outputs.values():
        checks.that((folder / path).exists(), f"two ranks: no {path}")
    log = tool.log_lines(folder / "log.jsonl")
    checks.that([line["step"] for line in log if "tokens" in line] == list(range(1, 7)) and
                all(line["rank"] == 0 for line in log), f"two ranks: the log is {log}")
    events = len(list((folder / "events").iterdir()))
    checks.that(events == 1, f"two ranks: {events} files of events")
    one = folder / "one.jsonl"
    tool.must_run(program, [*TRAIN, f"--log-json={one}"])
    checks.that(not any("rank" in line for line in tool.log_lines(one)), "one process: a rank")

    # Called wrongly is exit code 2, whether that shows before or after the ranks have met.
    for option in (f"--profile={folder}/model/trace.json", "--no-such-option"):
        result = several(2, f"--output={folder}/model", option)
        lines = launched.error_lines(result.stderr)
        checks.that(result.returncode == 2 and lines and
                    all(line.endswith("[cli.usage]") for line in lines),
                    f"{option}: {result.returncode}, {lines}")

    # A rank that never comes.
    words = launched.command(program, 1, [*TRAIN, "--time-limit=1"], mpirun)
    running = launched.start([*words, ":", "-n", "1", "sleep", "60"])
    _, error, left = launched.end(running, program, 30)
    lines = launched.error_lines(error)
    checks.that(running.returncode == 1 and len(lines) == 1 and
                lines[0].endswith("[parallel.timeout]"),
                f"a rank that never comes: {running.returncode}, {lines}, left {left}")

    # An error on one rank ends all; ranks that differ are refused.
    words = launched.command(program, 1, TRAIN, mpirun)
    for name, option, error, train in [
            ("file", "--data=nowhere.tsv", "file.read", OF_FILE),
            ("rate", "--learning-rate=1", "parallel.mismatch", TRAIN),
            ("seed", "--seed=2", "parallel.mismatch", TRAIN),
            ("device", "--device=neuroncore", "parallel.mismatch", TRAIN)]:
        result = launched.run([*words, ":", "-n", "1", program, *train, option])
        lines = launched.error_lines(result.stderr)
        checks.that(result.returncode == 1, f"another {name}: exit code {result.returncode}")
        checks.that(any(line.startswith("rank ") and line.endswith(f"[{error}]") for line in lines),
                    f"another {name}: says {lines}, {result.stderr[-500:]}")
        checks.that(error != "file.read" or any(line.startswith("rank 1: ") for line in lines),
                    f"another {name}: not rank 1: {lines}")


    # As are models that differ in what no weight shows.
    rows = folder / "rows.tsv"
    rows.write_bytes(tool.rows(40))
    options = ["train", "--quiet", "--max-steps=2", "--threads=1", f"--data={rows}"]
    for name, file, old, new, more, item in [
            ("heads", "config.json", '"num_attention_heads": 2', '"num_attention_heads": 4', [],
             "heads"),
            ("letters", "tokenizer_config.json", '"do_lower_case": true',
             '"do_lower_case": false', ["--stream=20"], "data.content")]:
        other = folder / name
        shutil.copytree(folder / "model", other)
        text = (other / file).read_text()
        checks.that(old in text, f"no {old} in {file}: {text[:2000]}")
        (other / file).write_text(text.replace(old, new))
        words = launched.command(program, 1, [*options, *more, f"--pretrained={folder}/model"],
                                 mpirun)
        result = launched.run([*words, ":", "-n", "1", program, *options, *more,
                               f"--pretrained={other}"])
        lines = launched.error_lines(result.stderr)
        checks.that(result.returncode == 1 and any(
            f'"{item}" of rank 1' in line and line.endswith("[parallel.mismatch]")
            for line in lines), f"another {name}: {result.returncode}, {lines}")


def main():
    program, work = os.path.abspath(sys.argv[1]), Path(sys.argv[2]).absolute()
    mpirun = sys.argv[3] if len(sys.argv) > 3 else "mpirun"
    checks = tool.Checks()
    tool.fresh_folder(work)
    check_refused(program, checks)
    check_job(program, work, checks)
    if checks.failed or shutil.which(mpirun) is None:
        code = checks.finish("launch, without mpirun")
        if code:
            return code
    launched.skip_without(program, mpirun)
    check_ranks(program, mpirun, work, checks)
    return checks.finish("launch")


if __name__ == "__main__":
    sys.exit(main())
