"""--profile: a table of operators and a trace of one step, and the same weights as without; the progress line.

    python3 profile.py PROGRAM WORK_FOLDER
"""

import json
import re
import sys
from pathlib import Path

import program as tool

TRAIN = ["train", "--vocab-size=300", "--max-length=16", "--batch-size=10"]


def main():
    program, work = sys.argv[1], tool.fresh_folder(Path(sys.argv[2]))
    checks = tool.Checks()
    (work / "train.tsv").write_bytes(tool.rows(195))

    def train(*options):
        result = tool.must_run(program, [*TRAIN, f"--data={work / 'train.tsv'}", *options])
        weights = re.search(rb"weights hash +(\w+)", result.stdout).group(1)
        return weights, result.stderr.decode()

    def profiled(*options):
        trace = work / "trace.json"
        trace.unlink(missing_ok=True)
        weights, text = train(f"--profile={trace}", *options)
        slices = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"] \
            if trace.exists() else []
        return weights, text, slices

    plain, text = train("--max-steps=20", "--epochs=2")
    checks.that(re.search(r"\d GFLOP/s \(\d+ % of peak\)", text), f"the progress line has a rate: {text}")
    for device in ("host", "neuroncore"):
        weights, text, slices = profiled("--max-steps=20", "--epochs=2", f"--device={device}")
        checks.that(device != "host" or weights == plain, "a profile changes no bit")
        checks.that("profile of 10 steps" in text, f"{device}: the table's head: {text}")
        for name in ("linear", "matmul", "attention backward", "adam step", "between operators", "all"):
            checks.that(re.search(f"^{name} .* [0-9]", text, re.MULTILINE), f"{device}: no row {name}: {text}")
        # Two layers: four linear layers each, the last one's queries apart, the pooler and the classifier.
        linear = [event for event in slices if event["name"] == "linear"]
        checks.that(len(linear) == 11, f"{device}: {len(linear)} linear layers in the trace of a step")
        checks.that(all(event["dur"] >= 0 and event["args"]["inputs"] for event in slices), "slices are whole")
        ends = [event["ts"] + event["dur"] for event in slices]
        checks.that(all(a <= b["ts"] + 1e-6 for a, b in zip(ends, slices[1:])), f"{device}: slices overlap")

    # Evaluations, and epochs of two steps, come in between.
    (work / "short.tsv").write_bytes(tool.rows(20))
    for options in (["--evaluate-every=1"], [f"--data={work / 'short.tsv'}", "--epochs=9"]):
        _, text, slices = profiled("--max-steps=20", f"--dev={work / 'short.tsv'}", *options)
        checks.that("profile of 10 steps" in text, f"{options}: {text}")
        linear = [event for event in slices if event["name"] == "linear"]
        checks.that(len(linear) == 11, f"{options}: {len(linear)} linear layers in the trace of a step")
        steps = re.search(r"^adam step +(\d+)", text, re.MULTILINE)
        layers = re.search(r"^linear +(\d+)", text, re.MULTILINE)
        checks.that(steps and layers and int(layers.group(1)) == 110, f"{options}: no evaluation is counted: {text}")

    # A run that is over before the warm-up, and one that ends within the profiled steps.
    _, text, slices = profiled("--max-steps=3")
    checks.that(not slices and "no profile" in text, f"three steps: {text}")
    _, text, slices = profiled("--max-steps=5")
    checks.that(slices and "profile of 2 steps" in text, f"five steps: {text}")
    return checks.finish("the profile")


if __name__ == "__main__":
    sys.exit(main())
