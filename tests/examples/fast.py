"""train --model-kind fast, and what evaluate, predict and serve make of its model.

    python3 fast.py PROGRAM WORK_FOLDER
"""

import json
import random
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import program as tool

TRAIN = ["train", "--model-kind=fast", "--quiet"]


def check_bits(program, work, data, checks):
    """Threads, and a run that is stopped and resumed, change no bit."""
    def weights(name, *options):
        log = work / f"{name}.jsonl"
        tool.must_run(program, [*TRAIN, f"--data={data}", f"--log-json={log}", "--epochs=4",
                                "--schedule=constant", *options])
        return tool.log_lines(log)[-1]["weights_hash"]

    whole = weights("whole", "--threads=1")
    checks.that(weights("threads", "--threads=2") == whole, "two threads give other weights")
    checkpoints = f"--checkpoint={work / 'checkpoints'}"
    weights("begun", checkpoints, "--max-steps=3")
    checks.that(weights("resumed", checkpoints, "--resume") == whole, "resuming gives other weights")
    checks.that(weights("seed", "--seed=2") != whole, "another seed gives the same weights")


def check_unspaced(program, work, checks):
    """Texts of a script without spaces: two characters among others decide."""
    draw = random.Random(5)
    for name, count in [("train", 2000), ("dev", 200)]:
        lines = []
        for i in range(count):
            text = [chr(0x4e00 + draw.randrange(400)) for _ in range(20)]
            text.insert(draw.randrange(20), ["\u8ba8\u538c", "\u559c\u6b22"][i % 2])
            lines.append("".join(text) + f"\t{i % 2}\n")
        (work / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    result = tool.must_run(program, ["train", "--model-kind=fast", f"--data={work}/train.tsv", f"--dev={work}/dev.tsv",
                                     f"--output={work}/unspaced"])
    accuracy = float(re.search(rb"accuracy +([0-9.]+)", result.stdout).group(1))
    checks.that(accuracy > 0.95 and b"linear:" in result.stderr, f"{accuracy}, {result.stderr[:300]}")
    answers = tool.must_run(program, ["predict", f"--model={work}/unspaced"],
                            text="\u4e00\u559c\u6b22\u4e01\n\u4e00\u8ba8\u538c\u4e01\n".encode()).stdout.splitlines()
    checks.that([line[:1] for line in answers] == [b"1", b"0"], f"{answers}")


def check_refusals(program, data, checks):
    for option in ["--preset=base", "--max-length=64", "--precision=bf16", "--stream=10",
                   "--weight-decay=0.1", "--dropout=0.5", "--vocab-size=500", "--optimizer=sgd", "--beta1=0.8"]:
        result = tool.run(program, [*TRAIN, f"--data={data}", option])
        checks.that(result.returncode == 2 and option.split("=")[0].encode() in result.stderr
                    and b"[cli.usage]" in result.stderr, f"{option}: {result.stderr}")


def check_kinds(program, work, data, checks):
    """Several labels, weights of classes, folders of other sizes, trials of settings."""
    several = work / "several.tsv"
    lines = []
    for i in range(600):
        own = [word for k, word in enumerate(["red", "green", "blue"]) if i * 37 >> k & 1]
        lines.append(f"thing {i % 50} {' '.join(own)}\t{','.join(own)}\n")
    several.write_text("".join(lines))
    result = tool.must_run(program, [*TRAIN, f"--data={several}", "--multi-label", "--held-out-share=0.1",
                                     f"--output={work}/several"])
    checks.that(re.search(rb"held out: micro F1 (0\.9|1)", result.stdout), f"several: {result.stdout}")
    answers = tool.must_run(program, ["predict", f"--model={work}/several"],
                            text=b"thing 3 red blue\nthing 4 green\n").stdout.splitlines()
    checks.that([sorted(line.split(b"\t")[::2]) for line in answers] == [[b"blue", b"red"], [b"green"]],
                f"several: {answers}")
    report = json.loads(tool.must_run(program, ["evaluate", f"--model={work}/several", f"--data={several}",
                                                "--json"]).stdout)
    checks.that(report["micro_f1"] > 0.95 and report["rows"] == 600, f"several: {report}")
    empty = work / "no_labels.tsv"
    empty.write_text("a text\t\nanother text\t\n" * 20)
    result = tool.run(program, [*TRAIN, f"--data={empty}", "--multi-label"])
    checks.that(result.returncode == 1, f"no label in a file: {result.stderr}")

    tool.must_run(program, [*TRAIN, f"--data={data}", "--class-weights=balanced", f"--output={work}/weighted"])
    weights = work / "weights.json"
    weights.write_text('{"0": 1, "1": 0}')
    result = tool.run(program, [*TRAIN, f"--data={data}", f"--class-weights={weights}"])
    checks.that(result.returncode == 1 and b"models.config_value" in result.stderr, f"weight 0: {result.stderr}")

    def size(*options):
        tool.must_run(program, [*TRAIN, f"--data={data}", f"--output={work}/sized", *options])
        return (work / "sized" / "model.safetensors").stat().st_size

    usual = size()
    checks.that(size("--precision=fp32") > 2 * usual and size("--keep=0.5") < 0.6 * usual, "sizes of folders")
    result = tool.run(program, [*TRAIN, f"--data={data}", f"--output={work}/sized", "--keep=0"])
    checks.that(result.returncode == 1 and b"models.config_value" in result.stderr, f"--keep 0: {result.stderr}")

    tuning = tool.fresh_folder(work / "tuning")
    command = [*TRAIN, f"--data={data}", "--tune-passes=2"]
    first = tool.must_run(program, command, folder=tuning).stdout
    checks.that(first == tool.must_run(program, [*command, "--threads=2"], folder=tuning).stdout.replace(
        b" --threads=2", b""), f"another table: {first}")
    kinds = {line.split(b"\t")[0] for line in first.splitlines()[1:-1]}
    checks.that(len(kinds) >= 2 and first.splitlines()[-1].startswith(b"best: "), f"table: {first}")
    checks.that(not list(tuning.iterdir()), "tuning leaves files")
    result = tool.must_run(program, [*TRAIN, f"--data={data}", "--tune=1"]).stdout
    checks.that(b"CPU s" in result and b"\nbest: " in result, f"table: {result}")
    for wrong in (["--tune", f"--checkpoint={work}/kept"], ["--tune", "--learning-rate=0.1"]):
        result = tool.run(program, [*TRAIN, f"--data={data}", *wrong])
        checks.that(result.returncode == 2 and b"--tune" in result.stderr, f"{wrong}: {result.stderr}")
    result = tool.run(program, ["train", "--c=2", f"--data={data}"])
    checks.that(result.returncode == 2 and b"--c needs" in result.stderr, f"--c of bert: {result.stderr}")
    result = tool.run(program, [*TRAIN, f"--data={data}", "--c=2", "--learning-rate=0.1"])
    checks.that(result.returncode == 2 and b"--c is for" in result.stderr, f"--c of a trainer: {result.stderr}")


def check_serve(program, model, checks):
    with tool.Process([program, "serve", f"--model={model}", "--port=0"],
                      stdout=subprocess.PIPE, env=tool.environment()) as running:
        address = running.stdout.readline().decode().split()[-1]
        request = urllib.request.Request(address + "/invocations", b"a good film\n\na dull plot\n",
                                         {"Content-Type": "text/plain"})
        for attempt in range(100):
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    lines = answer.read().decode().splitlines()
                break
            except urllib.error.HTTPError as error:  # the model is being loaded
                checks.that(error.code == 503, f"status {error.code}")
        running.terminate()
        running.wait(60)
    checks.that([line.split("\t")[0] for line in lines] == ["1", "", "0"] and lines[1] == "\t0.0000",
                f"served {lines}")


def main():
    program, work = sys.argv[1], tool.fresh_folder(Path(sys.argv[2]))
    checks = tool.Checks()
    data, model = work / "rows.tsv", work / "model"
    data.write_bytes(tool.rows(200))
    result = tool.must_run(program, ["train", "--model-kind=fast", f"--data={data}", "--epochs=5",
                                     f"--output={model}"])
    checks.that(b"linear:" in result.stderr, f"no choice is printed: {result.stderr[:300]}")
    config = json.loads((model / "config.json").read_text())
    checks.that(config["features.version"] == 2 and config["model_type"] == "soma_fast_classifier",
                f"config {config}")

    report = json.loads(tool.must_run(program, ["evaluate", f"--model={model}", f"--data={data}",
                                                "--json"]).stdout)
    checks.that(report["accuracy"] == 1 and report["rows"] == 200, f"report {report}")
    checks.that(report["text_seconds_p50"] <= report["text_seconds_p99"], f"times {report}")
    table = tool.must_run(program, ["evaluate", f"--model={model}", f"--data={data}"]).stdout
    checks.that(re.search(rb"accuracy 1\.0000.*\na text took .* us \(p50\)", table), f"{table}")

    lines = [b"a good film", b"", b"a dull plot", b" ", b"x" * 100_000]
    answers = tool.must_run(program, ["predict", f"--model={model}"],
                            text=b"\n".join(lines) + b"\n").stdout.splitlines()
    checks.that(len(answers) == len(lines), f"{answers}")
    checks.that([answers[i].split(b"\t")[0] for i in (0, 2)] == [b"1", b"0"], f"{answers}")
    checks.that([answers[i] for i in (1, 3)] == [b"\t0.0000"] * 2, f"lines without text: {answers}")

    check_bits(program, work, data, checks)
    check_unspaced(program, work, checks)
    check_refusals(program, data, checks)
    check_kinds(program, work, data, checks)
    check_serve(program, model, checks)
    result = tool.run(program, ["evaluate", f"--model={work}", f"--data={data}"])
    checks.that(result.returncode == 1, "a folder without a model is evaluated")
    return checks.finish("fast")


if __name__ == "__main__":
    sys.exit(main())
