"""Every bad input ends with its exit code and one line that ends with its id; nothing is written.

    python3 bad_inputs.py PROGRAM WORK_FOLDER
"""

import fcntl
import multiprocessing.dummy
import os
import subprocess
import sys
from pathlib import Path

import program as tool
from bad_cases import CASES, EVALUATE, GOOD, PREDICT, TRAIN, TUNE, Case, case
from bad_models import MODEL_CASES
from bad_rows import ROWS  # importing it adds its cases, the first of CASES

# How the checkpoint in base/ was made.
CHECKPOINT = ["--checkpoint=../base/checkpoint", "--resume"]


def usage(name, arguments, says=""):
    case(name, arguments, 2, "cli.usage", says=says)


# ---- evaluate, predict

case("evaluate rows of another label", [*EVALUATE, "--model=../base/model", "--data=a.tsv"], 1,
     "text.label_unseen", {"a.tsv": b"a\tyes\nb\tno\n"})
case("evaluate data missing", [*EVALUATE, "--model=../base/model", "--data=a.tsv"], 1, "file.read")
case("evaluate confusion nowhere",
     [*EVALUATE, "--model=../base/model", *GOOD, "--confusion=nowhere/a.csv"], 1, "file.write")
case("predict file missing", [*PREDICT, "--model=../base/model", "nowhere.txt"], 1, "file.read")
case("predict folder", [*PREDICT, "--model=../base/model", "folder"], 1, "file.read",
     {"folder": None})
case("predict not UTF-8", [*PREDICT, "--model=../base/model", "a.txt"], 1, "text.row_encoding",
     {"a.txt": b"good\ncaf\xe9\n"}, says='line 2 of "a.txt"')

# ---- models; what is in their folder may be bad, too: bad_models.py

case("model missing", [*PREDICT, "--model=nowhere"], 1, "file.read")
case("model a file", [*PREDICT, "--model=../base/rows.tsv"], 1, "models.config_json")
case("pretrained missing", [*TUNE, *GOOD, "--pretrained=nowhere"], 1, "file.read")
case("pretrained shorter than the texts",
     [*TUNE, *GOOD, "--pretrained=../base/model", "--max-length=512"], 0, "")

# ---- where things are written: known before a run that would take hours

LONG = [*TRAIN[:-1], *GOOD, "--epochs=100000"]
case("output a file", [*LONG, "--output=file"], 1, "file.write", {"file": b"earlier"})
case("output with other files", [*LONG, "--output=mine"], 1, "file.write",
     {"mine/config.json": b"{}", "mine/plan.txt": b"earlier"}, says="plan.txt")
case("output with folders", [*LONG, "--output=mine"], 1, "file.write",
     {"mine/model.safetensors": None}, says="model.safetensors")
case("output in a file", [*LONG, "--output=file/model"], 1, "file.write",
     {"file": b"earlier"})
case("output where nothing can be made", [*LONG, "--output=/proc/model"], 1,
     "file.write")
case("checkpoint a file", [*TRAIN, *GOOD, "--checkpoint=file"], 1, "file.write",
     {"file": b"earlier"})
case("log in no folder", [*TRAIN, *GOOD, "--log-json=nowhere/log.jsonl"], 1, "file.write")
case("log a folder", [*TRAIN, *GOOD, "--log-json=folder"], 1, "file.write", {"folder": None})
case("log a full device", [*TRAIN, *GOOD, "--log-json=/dev/full"], 1, "file.write")
case("events in a file", [*TRAIN, *GOOD, "--tensorboard=file"], 1, "file.write",
     {"file": b"earlier"})
case("confusion in no folder", [*LONG, "--output=out", "--confusion=nowhere/a.csv"], 1,
     "file.write")

NOWHERE = ["--data=nowhere.tsv"]  # what comes before it is known before rows are read
for option, path in [("log-json", "nowhere/log.jsonl"), ("log-json", "file/log.jsonl"),
                     ("log-json", "folder"), ("tensorboard", "file"), ("tensorboard", "/proc/a/b"),
                     ("checkpoint", "file/a/b"), ("checkpoint", "/proc/a")]:
    case(f"{option} at {path} before rows", [*TRAIN, *NOWHERE, f"--{option}={path}"], 1,
         "file.write", {"file": b"earlier", "folder": None})
case("checkpoint of an earlier run before rows",
     [*TRAIN, *NOWHERE, "--checkpoint=../base/longer"], 1, "checkpoint.step", says="9999")
case("good places before rows",
     [*TRAIN, *NOWHERE, "--log-json=log.jsonl", "--tensorboard=events", "--checkpoint=new/a",
      "--confusion=a.csv", "--profile=folder/a.json"], 1, "file.read",
     {"log.jsonl": b"earlier", "folder": None, "new": None, "events": None, "events/new": None},
     says="nowhere.tsv")
case("evaluate confusion before rows",
     [*EVALUATE, "--model=../base/model", *NOWHERE, "--confusion=nowhere/a.csv"], 1, "file.write")

SAME = {"rows.tsv": ROWS, "folder": None}
for name, options in [
        ("two outputs", ["--data=rows.tsv", "--confusion=same", "--profile=folder/../same"]),
        ("log and events", ["--data=rows.tsv", "--log-json=same", "--tensorboard=same/"]),
        ("log and rows", ["--data=rows.tsv", "--log-json=rows.tsv"]),
        ("log and linked rows", ["--data=out/../rows.tsv", "--log-json=link/../rows.tsv"]),
        ("confusion and dev", [*GOOD, "--dev=rows.tsv", "--confusion=./rows.tsv"])]:
    case(f"same {name}", [*TRAIN, *options], 2, "cli.usage", SAME, says="is the same file as")
case("same evaluated rows",
     [*EVALUATE, "--model=../base/model", "--data=rows.tsv", "--confusion=rows.tsv"], 2,
     "cli.usage", SAME, says="is the same file as")

for option, path in [("checkpoint", "out/steps"), ("log-json", "out/log.jsonl"),
                     ("tensorboard", "./out/"), ("confusion", "out/../out/a.csv"),
                     ("profile", "out/later/trace.json"), ("checkpoint", "link/steps")]:
    case(f"{option} at {path} in the output", [*LONG, "--output=out", f"--{option}={path}"], 2,
         "cli.usage", says=f"--{option} ")

# ---- checkpoints of something else

for what, options in [("seed", ["--seed=2"]), ("model", ["--preset=small"]),
                      ("rate", ["--learning-rate=0.5"]), ("precision", ["--precision=bf16"]),
                      ("batches", ["--batch-size=7"]), ("schedule", ["--schedule=cosine"]),
                      ("optimizer", ["--optimizer=sgd", "--weight-decay=0.01"]), ("beta", ["--beta2=0.99"]),
                      ("decay", ["--weight-decay=0.1"]), ("average", ["--average=0.9"]),
                      ("metric", ["--metric=accuracy"]), ("loss", ["--class-weights=balanced"]),
                      ("arithmetic", ["--math=portable"]), ("dropout", ["--dropout=0.5"])]:
    case(f"checkpoint of another {what}", [*TRAIN, *GOOD, *CHECKPOINT, *options], 1,
         "checkpoint.identity")
case("checkpoint of other rows", [*TRAIN, "--data=rows.tsv", *CHECKPOINT], 1,
     "checkpoint.identity", {"rows.tsv": ROWS.replace(b"number 6", b"number six")})
case("checkpoint damaged", [*TRAIN, *GOOD, "--checkpoint=../base/damaged", "--resume"], 1,
     "checkpoint.damaged")
case("checkpoint cut", [*TRAIN, *GOOD, "--checkpoint=../base/cut", "--resume"], 1,
     "checkpoint.damaged")
case("checkpoint in use", [*TRAIN, *GOOD, "--checkpoint=../base/locked", "--resume"], 1,
     "checkpoint.locked")
case("checkpoint of an earlier run", [*LONG, "--checkpoint=../base/longer"], 1,
     "checkpoint.step", says="9999")

# ---- the command line

usage("no command", [])
usage("unknown command", ["tarin"])
usage("unknown option", [*TRAIN, "--lerning-rate=1"], "--learning-rate")
usage("unknown option of evaluate", [*EVALUATE, "--jsn"], "--json")
usage("unknown short option", [*TRAIN, "-x"])
usage("word without option", [*TRAIN, "stray"])
usage("count not a number", [*TRAIN, "--epochs=three"])
usage("count below zero", [*TRAIN, "--epochs=-1"])
usage("count zero", [*TRAIN, "--epochs=0"])
usage("count a fraction", [*TRAIN, "--batch-size=1.5"])
usage("count beyond 64 bits", [*TRAIN, "--seed=99999999999999999999999"])
usage("count empty", [*TRAIN, "--batch-size="])
usage("value missing", [*TRAIN, "--epochs"])
usage("rate NaN", [*TRAIN, "--learning-rate=nan"])
usage("rate infinite", [*TRAIN, "--learning-rate=inf"])
usage("rate below zero", [*TRAIN, "--learning-rate=-1"])
usage("dropout one", [*TRAIN, "--dropout=1"])
usage("share of all", [*TRAIN, *GOOD, "--held-out-share=1"])
for beside, rows in {"dev": [*GOOD, "--dev=../base/rows.tsv"], "made-up reviews": [],
                   "stream": [*GOOD, "--stream=9", "--dev=../base/rows.tsv"]}.items():
    usage(f"share beside {beside}", [*TRAIN, *rows, "--held-out-share=0.1"], "would hold out nothing")
usage("too few reviews", [*TRAIN, "--reviews=5"])
usage("threads", [*TRAIN, "--threads=-2"])
usage("schedule", [*TRAIN, "--schedule=sawtooth"])
for schedule, option in [("linear", "--schedule-factor=0.5"), ("constant", "--final-ratio=0.1"),
                         ("plateau", "--schedule-every=3"), ("step", "--schedule-patience=1"),
                         ("cosine", "--schedule-threshold=0")]:
    usage(f"{option} with {schedule}", [*TRAIN, *GOOD, f"--schedule={schedule}", option],
          f"{option.split('=')[0]} does nothing with --schedule {schedule}")
usage("optimizer", [*TRAIN, "--optimizer=adan"])
for optimizer, option in [("sgd", "--beta1=0.8"), ("rmsprop", "--beta2=0.9"), ("sgd", "--epsilon=1e-6"),
                          ("adamw", "--momentum=0.9"), ("rmsprop", "--dampening=0.1"), ("adam", "--nesterov"),
                          ("adagrad", "--alpha=0.9"), ("lamb", "--rate-decay=0.1"), ("adamw", "--initial-square=1"),
                          ("adam", "--beta2-decay=-0.7"), ("sgd", "--floor=1e-7"), ("lamb", "--least-scale=1"),
                          ("adagrad", "--update-clip=2"), ("adafactor", "--beta1=0.9")]:
    usage(f"{option} with {optimizer}", [*TRAIN, *GOOD, f"--optimizer={optimizer}", option],
          f"{option.split('=')[0]} does nothing with --optimizer {optimizer}")
for option in ["--nesterov", "--dampening=0.5"]:
    usage(f"{option} alone", [*TRAIN, *GOOD, "--optimizer=sgd", option],
          f"{option.split('=')[0]} does nothing without --momentum")
usage("states of adafactor", [*TRAIN, *GOOD, "--optimizer=adafactor", "--precision=bf16_sr"],
      "--optimizer adafactor keeps its states in fp32")
usage("every without an average", [*TRAIN, "--average-every=2"], "--average")
usage("from without an average", [*TRAIN, "--average-from=2"], "--average")
usage("every zero", [*TRAIN, "--average=0.9", "--average-every=0"])
usage("average above one", [*TRAIN, *GOOD, "--average=1.5"])
case("average of one", [*TRAIN, *GOOD, "--average=1"], 1, "train.options", says="average.decay")
usage("factor above one", [*TRAIN, "--schedule=step", "--schedule-factor=2"])
usage("preset", [*TRAIN, "--preset=huge"])
usage("math", [*TRAIN, "--math=exact"])
usage("device", [*TRAIN, "--device=gpu"])
usage("flag with a value", [*TRAIN, "--keep-best=perhaps"])
usage("excluded options", [*TRAIN, "--batch-size=8", "--batch-tokens=99"])
usage("preset with pretrained", [*TUNE, *GOOD, "--pretrained=../base/model", "--preset=tiny"])
usage("vocabulary size with pretrained", [*TRAIN, *GOOD, "--pretrained=../base/model"],
      "--vocab-size")
usage("dev without data", [*TRAIN, "--dev=../base/rows.tsv"], "--dev")
usage("reviews with data", [*TRAIN, *GOOD, "--reviews=100"], "--reviews")
usage("label noise with data", [*TRAIN, *GOOD, "--label-noise=0.1"], "--label-noise")
for held_out in ["--keep-best", "--patience=2", "--evaluate-every=9", "--confusion=a.csv"]:
    usage(f"{held_out} without held-out rows", [*TRAIN, *GOOD, "--stream=9", held_out],
          held_out.split("=")[0])
usage("output empty", [*TRAIN, "--output=", "--quiet"], "--output")
usage("checkpoint empty", [*TRAIN, *GOOD, "--checkpoint=", "--resume"], "--checkpoint")
usage("log an empty word", [*TRAIN, *GOOD, "--log-json", ""], "--log-json")
usage("predict an empty word", [*PREDICT, "--model=../base/model", ""])
usage("config of an empty name", [*TRAIN, *GOOD, "--config="], "--config")
usage("resume without checkpoint", [*TRAIN, "--resume"])
usage("checkpoint-every without checkpoint", [*TRAIN, "--checkpoint-every=3"])
usage("evaluate without model", [*EVALUATE, *GOOD])
usage("evaluate without data", [*EVALUATE, "--model=../base/model"])
usage("predict without model", PREDICT)
case("profile that cannot be written", [*TRAIN, *GOOD, "--profile=nowhere/trace.json"], 1, "file.write")
case("precision unknown", [*TRAIN, *GOOD, "--precision=fp12"], 1, "train.precision")
# Pipelines: one process has one stage, and may have micro-batches.
usage("no partitions", [*TRAIN, *GOOD, "--partitions=0"])
usage("no micro-batches", [*TRAIN, *GOOD, "--microbatches=0"])
usage("a pipeline of no kind", [*TRAIN, *GOOD, "--pipeline=random"])
case("more partitions than ranks", [*TRAIN, *GOOD, "--partitions=2"], 1, "train.options")
case("three micro-batches", [*TRAIN, *GOOD, "--microbatches=3"], 1, "train.options")
case("more micro-batches than shards", [*TRAIN, *GOOD, "--microbatches=16"], 1, "train.options")
case("a cut too many", [*TRAIN, *GOOD, "--microbatches=2", "--cut=layer.1"], 1, "parallel.plan")
case("no such cut", [*TRAIN, *GOOD, "--microbatches=2", "--cut=layer.9"], 1, "parallel.plan", says="layer.9")
case("decision file torn", [*TRAIN, *GOOD, "--microbatches=2", "--partition-file=a.json"], 1, "record.json",
     {"a.json": b'{"fingerprint": "1", '})
case("decision file of another model", [*TRAIN, *GOOD, "--microbatches=2", "--partition-file=a.json"], 1,
     "parallel.plan", {"a.json": b'{"fingerprint": "1", "partitions": 1, "microbatches": 1}'})
case("micro-batches of whole scales", [*TRAIN, *GOOD, "--microbatches=2", "--precision=fp8_current"], 1,
     "train.options")
case("micro-batches in one process", [*TRAIN, *GOOD, "--microbatches=2"], 0, "")
case("shards no power of two", [*TRAIN, *GOOD, "--shards=3"], 1, "ragged.shards")
case("loss not finite", [*TRAIN, *GOOD, "--learning-rate=1000", "--clip=0", "--epochs=99",
                         "--schedule=constant"], 1, "train.not_finite")
case("vocabulary too small", [*TRAIN[:2], *TRAIN[3:], "--data=rows.tsv", "--vocab-size=100"], 1,
     "text.training", {"rows.tsv": "".join(
         f"{''.join(chr(0x4e00 + i) + ' ' for i in range(300))}{n}\t{n % 2}\n"
         for n in range(60)).encode()})

# ---- options in JSON

for name, text, code, error in [
        ("not JSON", b"{epochs: 1}", 2, "cli.usage"),
        ("empty", b"", 2, "cli.usage"),
        ("a list", b"[1]", 2, "cli.usage"),
        ("unknown option", b'{"epoch": 1}', 2, "cli.usage"),
        ("a list for a value", b'{"epochs": [1]}', 2, "cli.usage"),
        ("an empty value", b'{"log_json": ""}', 2, "cli.usage"),
        ("null for a value", b'{"epochs": null}', 2, "cli.usage"),
        ("text for a number", b'{"epochs": "many"}', 2, "cli.usage"),
        ("number for a flag", b'{"keep_best": 7}', 2, "cli.usage"),
        ("fraction for a count", b'{"batch-size": 2.5}', 2, "cli.usage"),
        ("another config", b'{"config": "options.json"}', 2, "cli.usage"),
        ("help", b'{"help": true}', 2, "cli.usage"),
        ("not UTF-8", b'{"ep\xff": 1}', 2, "cli.usage"),
        ("zero byte", b'{"epochs": 1}\0{', 2, "cli.usage")]:
    case(f"config {name}", [*TRAIN, *GOOD, "--config=options.json"], code, error,
         {"options.json": text})
case("config twice", [*TRAIN, *GOOD, "--config=a.json", "--config=b.json"], 2, "cli.usage",
     {"a.json": b"{}", "b.json": b"{}"})
case("config missing file", [*TRAIN, "--config=nowhere.json"], 1, "file.read")
usage("config without file", [*TRAIN, "--config"])


def make_base(program, work, base):
    """What cases share: rows, a model, checkpoints. Nothing in it may change."""
    (base / "rows.tsv").write_bytes(ROWS)
    tool.fresh_folder(work / "start")
    tool.must_run(program, [*TRAIN, *GOOD, "--checkpoint=../base/checkpoint",
                            "--output=../base/model"], folder=work / "start")
    steps = [path.name for path in (base / "checkpoint").glob("step-*")]
    assert len(steps) == 1, steps
    for name, change in [("damaged", lambda content: content[:-9] + b"9" + content[-8:]),
                         ("cut", lambda content: content[:-9]), ("locked", None),
                         ("longer", None)]:
        subprocess.run(["cp", "-r", base / "checkpoint", base / name], check=True)
        weights = base / name / steps[0] / "weights.safetensors"
        if change:
            weights.write_bytes(change(weights.read_bytes()))
    (base / "longer" / steps[0]).rename(base / "longer" / "step-0000009999")
    original = {path.name: path.read_bytes() for path in (base / "model").iterdir()}
    for name, error, change in MODEL_CASES:
        files = dict(original)
        change(files)
        files = {f"model/{file}": content for file, content in files.items() if content is not None}
        case(f"model: {name}", [*PREDICT, "--model=model"], 1, error, files)
        if name == "weights without classifier":
            case(f"evaluate: {name}", [*EVALUATE, *GOOD, "--model=model"], 1, error, files)
            case(f"serve: {name}", ["serve", "--port=0", "--model=model"], 1, error, files)


def problem_of(one, result):
    lines = result.stderr.decode("utf-8", "replace").splitlines()
    if result.returncode != one.code:
        return f"exit code {result.returncode}, wanted {one.code}: {lines[-3:]}"
    if one.code == 0:
        return ""
    if len(lines) != 1:
        return f"{len(lines)} lines, wanted one: {lines[:5]}"
    if not lines[0].endswith(f"[{one.error}]"):
        return f"wanted [{one.error}]: {lines[0][-300:]}"
    if len(lines[0]) > 1000:
        return f"a line of {len(lines[0])} bytes: {lines[0][:200]}"
    return "" if one.says in lines[0] else f"wanted {one.says}: {lines[0]}"


def check_case(program, work, one):
    folder = tool.fresh_folder(work / one.name.replace(" ", "_").replace("/", "_"))
    (folder / "out").mkdir()
    (folder / "out" / "config.json").write_text("earlier")
    (folder / "link").symlink_to("out")
    for name, content in one.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if content is None else path.write_bytes(content)
    before = tool.contents(folder)
    try:
        result = tool.run(program, one.arguments, folder=folder, text=one.text)
    except subprocess.TimeoutExpired:
        return "still running"
    problem = problem_of(one, result)
    after = tool.contents(folder)
    if not problem and one.code != 0 and after != before:
        problem = f"files changed: {sorted(set(after.items()) ^ set(before.items()))[:5]}"
    return problem


def check_full_disk(program, work, checks):
    """On a file system of 1 MB the model has no room: what was there before stays."""
    script = ('mount -t tmpfs -o size=1m none full || exit 99; mkdir full/out; '
              'echo earlier > full/out/config.json; "$@"; code=$?; find full | sort; exit $code')
    folder = tool.fresh_folder(work / "full_disk")
    (folder / "full").mkdir()
    for name, options in [("output", ["--output=full/out"]),
                          ("checkpoint", ["--checkpoint=full/out/checkpoint"])]:
        try:
            result = tool.run("unshare", ["-m", "sh", "-c", script, "sh", program, *TRAIN[:-1],
                                          *GOOD, *options], folder=folder)
        except FileNotFoundError:
            result = None
        if result is None or b"unshare" in result.stderr or result.returncode == 99:
            print(f"skipped: full disk ({name}), a file system cannot be mounted here")
            continue
        problem = problem_of(Case(name, [], 1, "file.write", says="No space"), result)
        checks.that(not problem, f"full disk, {name}: {problem}")
        left = [line for line in result.stdout.decode().splitlines() if line.startswith("full")]
        wanted = ["full", "full/out", "full/out/config.json"]
        if name == "checkpoint":
            wanted[2:2] = ["full/out/checkpoint", "full/out/checkpoint/lock"]
        checks.that(sorted(left) == sorted(wanted), f"full disk, {name}, left {left}")


def main():
    program, work = os.path.abspath(sys.argv[1]), Path(sys.argv[2]).absolute()
    base = tool.fresh_folder(work / "base")
    make_base(program, work, base)
    before = tool.contents(base)
    checks = tool.Checks()
    with open(base / "locked" / "lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with multiprocessing.dummy.Pool(2) as pool:  # threads that wait for the program
            problems = pool.map(lambda one: check_case(program, work, one), CASES)
    for one, problem in zip(CASES, problems):
        checks.that(not problem, f"{one.name}: {problem}")
    checks.that(tool.contents(base) == before, "files that every case reads have changed")
    check_full_disk(program, work, checks)
    return checks.finish(f"{len(CASES)} bad inputs")


if __name__ == "__main__":
    sys.exit(main())
