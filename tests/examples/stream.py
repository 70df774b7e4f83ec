"""train --stream: rows that stay in their file train the same model as rows that are read at once.

    python3 stream.py PROGRAM WORK_FOLDER
"""

import gzip
import shutil
import subprocess
import sys
from pathlib import Path

import program as tool

TRAIN = ["train", "--quiet", "--vocab-size=300", "--max-length=16", "--batch-size=10"]


def main():
    program, work = sys.argv[1], tool.fresh_folder(Path(sys.argv[2]))
    checks = tool.Checks()
    (work / "train.tsv").write_bytes(tool.rows(195))
    (work / "train.tsv.gz").write_bytes(gzip.compress(tool.rows(195)))
    (work / "dev.tsv").write_bytes(tool.rows(40))

    def train(name, *options, data="train.tsv"):
        log = work / f"{name}.jsonl"
        tool.must_run(program, [*TRAIN, f"--data={work / data}", f"--dev={work / 'dev.tsv'}", "--epochs=2",
                                f"--log-json={log}", *options])
        return tool.log_lines(log)

    plain = train("plain", "--no-shuffle")
    checks.that(len([line for line in plain if "loss" in line and "event" not in line]) == 40, "40 steps")
    for name, options, data in [("stream", ["--stream=50"], "train.tsv"), ("one", ["--stream=1"], "train.tsv"),
                                ("gzip", ["--stream=50"], "train.tsv.gz")]:
        lines = train(name, "--no-shuffle", *options, data=data)
        checks.that(lines[-1]["weights_hash"] == plain[-1]["weights_hash"], f"{name}: the weights of rows in memory")
        checks.that(lines[-1]["accuracy"] == plain[-1]["accuracy"], f"{name}: the accuracy")

    # 20 batches make 7 steps an epoch, the last one smaller.
    gathered = [train(f"gathered{i}", "--no-shuffle", "--accumulate=3", *more) for i, more in
                enumerate([[], ["--stream=50"]])]
    checks.that(len([line for line in gathered[0] if "loss" in line and "event" not in line]) == 14, "14 steps")
    checks.that(gathered[0][-1]["weights_hash"] == gathered[1][-1]["weights_hash"], "--accumulate: the same weights")

    # Shuffled: an order of its own that repeats, also when the run is interrupted.
    shuffled = train("shuffled", "--stream=50")
    checks.that(shuffled[-1]["weights_hash"] != plain[-1]["weights_hash"], "shuffling changes the order")
    checks.that(train("again", "--stream=50")[-1]["weights_hash"] == shuffled[-1]["weights_hash"], "it repeats")
    parts = [f"--checkpoint={work / 'checkpoints'}", "--checkpoint-every=1", "--keep-checkpoints=100", "--stream=50"]
    train("whole", *parts)
    for folder in (work / "checkpoints").glob("step-*"):
        if int(folder.name.removeprefix("step-")) > 27:  # in the second epoch
            shutil.rmtree(folder)
    resumed = train("resumed", *parts, "--resume")
    checks.that(resumed[0]["step"] == 28, "the run goes on after step 27")
    checks.that(resumed[-1]["weights_hash"] == shuffled[-1]["weights_hash"], "27 steps and the rest are all")

    # A file far larger than what the run may hold.
    big = work / "big.tsv"
    with open(big, "wb") as file:
        piece = tool.rows(20000)
        for _ in range(100):
            file.write(piece)
    result = subprocess.run([program, *TRAIN, f"--data={big}", "--stream=1000", "--max-steps=3", "--threads=1",
                             f"--log-json={work / 'big.jsonl'}"], env=tool.environment(), capture_output=True,
                            timeout=300, check=False)
    checks.that(result.returncode == 0, f"a big file: {result.stderr}")
    if result.returncode == 0:
        peak = tool.log_lines(work / "big.jsonl")[-1]["peak_rss_bytes"]
        checks.that(peak < big.stat().st_size / 2, f"{peak} bytes for a file of {big.stat().st_size}")
    big.unlink()

    for arguments, wanted in [(["--stream=5"], b"--stream needs --data"),
                              (["--stream=0", f"--data={work / 'train.tsv'}"], b"--stream"),
                              (["--stream=5", f"--data={work / 'dev.tsv'}", f"--dev={work / 'none'}"], b"[file.read]")]:
        result = tool.run(program, [*TRAIN, *arguments])
        checks.that(result.returncode != 0 and wanted in result.stderr and result.stderr.count(b"\n") == 1,
                    f"{arguments}: {result.returncode} {result.stderr}")
    return checks.finish("streamed rows")


if __name__ == "__main__":
    sys.exit(main())
