"""Rows of `plan` by their predicted seconds beside measured steps, and what a plan costs.

    python3 plan_order.py PROGRAM WORK_FOLDER

Rows are trained in turns, three times, and the median of their steps counts. Of the pairs of rows whose measured steps differ
by more than 15 % at most one in fifteen is in the table in another order, and none that differs by half. The profile of
BERT-base takes at most ten of its steps. Needs mpirun for rows of two ranks, and a machine on which nothing else runs.
"""

import itertools
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import program as tool

sys.path.append(str(Path(__file__).resolve().parents[1] / "parallel"))
import launched

SHAPE = ["--data=rows.tsv", "--preset=small", "--vocab-size=1000", "--max-length=64", "--batch-size=32",
         "--learning-rate=1e-5"]
BASE = ["--data=rows.tsv", "--preset=base", "--vocab-size=1000", "--max-length=64", "--batch-size=16",
        "--learning-rate=1e-5"]
STEPS, TURNS = 6, 3
NEAR, FAR, WRONG = 1.15, 1.5, 1 / 15


def run(command, folder):
    result = subprocess.run(command, cwd=folder, capture_output=True, env=launched.environment(), check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{command}: {result.stderr.decode()}")
    return result.stdout


def plan(program, folder, options):
    return json.loads(run([program, "plan", "--json", *options], folder))


def layout(row):
    ranks = row["partitions"] * row["replicas"]
    options = [f"--partitions={row['partitions']}", f"--microbatches={row['microbatches']}", f"--threads={row['threads']}"]
    if row["partitions"] > 1:
        options += [f"--pipeline={row['pipeline']}", f"--optimize={row['optimize']}"]
        options += [f"--cut={name}" for name in row["cuts"].split()]
    if row["recompute"]:
        options.append("--recompute")
    if row["shard_optimizer"]:
        options.append("--shard-optimizer")
    return ranks, options


def seconds(program, folder, row, shape, steps):
    """The median of the steps but the first."""
    ranks, options = layout(row)
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    words = ["train", *shape, *options, f"--max-steps={steps}", "--quiet", f"--log-json={log.name}"]
    run(launched.command(program, 0 if ranks == 1 else ranks, words), folder)
    times = [line["seconds"] for line in tool.log_lines(log) if "grad_norm" in line]
    return statistics.median(times[1:])


def main():
    program, folder = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    tool.fresh_folder(folder)
    (folder / "rows.tsv").write_bytes(tool.rows(600))
    checks = tool.Checks()
    options = [*SHAPE, *(["--ranks=2"] if shutil.which("mpirun") else [])]
    rows = [row for row in plan(program, folder, options)["rows"] if not row["reason"]]
    measured = [[] for _ in rows]
    for _ in range(TURNS):
        for row, times in zip(rows, measured):
            times.append(seconds(program, folder, row, SHAPE, STEPS))
    found = [statistics.median(times) for times in measured]
    for row, time in sorted(zip(rows, found), key=lambda pair: pair[1]):
        print(f"{1e3 * time:8.1f} ms, predicted {1e3 * row['seconds']:8.1f}: {' '.join(layout(row)[1])}", flush=True)
    pairs = [(a, b) for a, b in itertools.permutations(range(len(rows)), 2) if found[b] > NEAR * found[a]]
    wrong = [(a, b) for a, b in pairs if rows[a]["seconds"] >= rows[b]["seconds"]]
    for a, b in wrong:
        print(f"wrong order: {layout(rows[a])} took {found[a]:.4f} s, {layout(rows[b])} {found[b]:.4f} s; predicted "
              f"{rows[a]['seconds']:.4f} and {rows[b]['seconds']:.4f}")
        checks.that(found[b] <= FAR * found[a], f"the row that takes {found[b] / found[a]:.2f} of the other is before it")
    checks.that(len(wrong) <= WRONG * len(pairs), f"{len(wrong)} of {len(pairs)} pairs are in the wrong order")
    table = plan(program, folder, [*BASE, "--max-steps=3"])
    step = seconds(program, folder, table["rows"][0], BASE, 3)
    print(f"BERT-base: profile {table['profile_seconds']:.1f} s, step {step:.2f} s", flush=True)
    checks.that(table["profile_seconds"] <= 10 * step, "the profile of BERT-base takes more than ten steps")
    checks.that(table["table_seconds"] <= 0.05, f"the table takes {table['table_seconds']} s")
    sys.exit(checks.finish("plan order"))


if __name__ == "__main__":
    main()
