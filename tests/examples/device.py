"""--device neuroncore: the same training, evaluation and prediction on the model of the accelerator's core.

    python3 device.py PROGRAM WORK_FOLDER
"""

import json
import sys
from pathlib import Path

import program as tool

TRAIN = ["train", "--vocab-size=300", "--max-length=16", "--batch-size=10", "--max-steps=20", "--epochs=2"]


def main():
    program, work = sys.argv[1], tool.fresh_folder(Path(sys.argv[2]))
    checks = tool.Checks()
    (work / "train.tsv").write_bytes(tool.rows(195))
    (work / "dev.tsv").write_bytes(tool.rows(40))

    def train(name, *options):
        log = work / f"{name}.jsonl"
        result = tool.must_run(program, [*TRAIN, f"--data={work / 'train.tsv'}", f"--dev={work / 'dev.tsv'}",
                                         f"--output={work / name}", f"--log-json={log}", *options])
        return tool.log_lines(log), result.stdout.decode()

    def losses(lines):
        return [line["loss"] for line in lines if "step" in line and "event" not in line]

    for precision, bound in [("fp32", 1e-5), ("bf16_sr", 2**-8)]:
        host, text = train(f"host_{precision}", f"--precision={precision}")
        checks.that("gpsimd" not in text, "the host reports no device")
        device, text = train(f"device_{precision}", "--device=neuroncore", f"--precision={precision}")
        checks.that(len(losses(device)) == 20, "20 steps")
        farthest = max(abs(a - b) for a, b in zip(losses(host), losses(device)))
        checks.that(farthest < bound, f"{precision}: losses differ by up to {farthest}")
        checks.that(" tensor, " in text and " dma instructions" in text, f"the report names the engines: {text}")
        checks.that("on the host" not in text, f"every operator has a program: {text}")
        again, _ = train("again", "--device=neuroncore", f"--precision={precision}", "--threads=1")
        checks.that(again[-1]["weights_hash"] == device[-1]["weights_hash"], f"{precision}: threads change no bit")

    # A run does not change who computes.
    train("there", "--device=neuroncore", "--max-steps=2", f"--checkpoint={work / 'steps'}")
    result = tool.run(program, [*TRAIN, f"--data={work / 'train.tsv'}", f"--dev={work / 'dev.tsv'}",
                                "--max-steps=2", f"--checkpoint={work / 'steps'}", "--resume"])
    checks.that(result.returncode == 1 and b'"soma.device" is "host", wanted "' in result.stderr and
                result.stderr.endswith(b"[checkpoint.identity]\n"), f"on the host: {result.stderr}")

    def evaluate(*options):
        result = tool.must_run(program, ["evaluate", f"--model={work / 'host_fp32'}", f"--data={work / 'dev.tsv'}",
                                         "--json", *options])
        return json.loads(result.stdout)

    on_host, on_device = evaluate(), evaluate("--device=neuroncore")
    checks.that(on_host["accuracy"] == on_device["accuracy"], f"{on_host} {on_device}")
    checks.that(abs(on_host["loss"] - on_device["loss"]) < 1e-5, f"{on_host} {on_device}")

    (work / "texts.txt").write_bytes(b"a quiet film\na loud one\n")
    predict = ["predict", f"--model={work / 'host_fp32'}", str(work / "texts.txt")]
    plain = tool.must_run(program, predict).stdout
    checks.that(tool.must_run(program, [*predict, "--device=neuroncore"]).stdout.split()[0] == plain.split()[0],
                "predictions agree")
    return checks.finish("the device")


if __name__ == "__main__":
    sys.exit(main())
