"""The training job of a hosting service: all from its environment and its folders.

    python3 training_job.py PROGRAM WORK_FOLDER
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import program as tool

HYPERPARAMETERS = {"epochs": "1", "batch_size": 16, "vocab-size": "300", "max_length": "32",
                   "quiet": "true", "keep_best": False, "decay-all": True}
MODEL_FILES = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
               "vocab.txt"}


def make_job(folder, channels=("train", "val"), rows=(200, 40)):
    """The folders that the service makes, and the environment that says where they are."""
    tool.fresh_folder(folder)
    places = {f"SM_CHANNEL_{name.upper()}": folder / "input" / name for name in channels}
    places.update({"SM_MODEL_DIR": folder / "model", "SM_OUTPUT_DATA_DIR": folder / "output" / "data"})
    for place in places.values():
        place.mkdir(parents=True)
    for name, count in zip(channels, rows):
        (folder / "input" / name / "rows.tsv").write_bytes(tool.rows(count))
    extra = {name: str(place) for name, place in places.items()}
    return {**extra, "SM_HPS": json.dumps(HYPERPARAMETERS)}


def log_of(folder):
    return tool.log_lines(folder / "output" / "data" / "log.jsonl")


def steps_of(folder):
    return len([line for line in log_of(folder) if "grad_norm" in line])


def check_good_job(program, folder, checks):
    extra = make_job(folder)
    extra["SM_OUTPUT_DATA_DIR"] += "/"  # some services end folders so
    result = tool.run(program, [], folder=folder, extra=extra)
    checks.that(result.returncode == 0, f"a job: {result.returncode}, {result.stderr}")
    checks.that({path.name for path in (folder / "model").iterdir()} == MODEL_FILES,
                "a job's model is not whole")
    checks.that(steps_of(folder) == 13, "13 batches of 16 of 200")
    checks.that(log_of(folder)[-1].get("event") == "done", "the log's last line")
    checks.that(not (folder / "output" / "failure").exists(), "a good job writes no failure")
    answer = tool.run(program, ["predict", f"--model={folder}/model"], text=b"a good film\n")
    checks.that(answer.returncode == 0 and answer.stdout.count(b"\n") == 1, "the job's model")


def check_channels(program, folder, checks):
    """Channels by the names that people give them; part files, markers, a test channel."""
    for train, val in [("train", "validation"), ("training", "eval"), ("training", "dev"),
                       ("train", "valid"), ("training", "evaluation")]:
        extra = make_job(folder, (train, val))
        result = tool.run(program, [], folder=folder, extra=extra)
        checks.that(result.returncode == 0 and b"40 validation" in result.stdout,
                    f"{train} and {val}: {result.returncode}, {result.stderr}, {result.stdout}")
    # Only test beside train: a share of train is held out, and test is measured at the end.
    for channels, held_out in [(("train", "test"), None), (("train", "test", "val"), b"20 validation")]:
        extra = make_job(folder, channels, (200, 40, 20))
        result = tool.run(program, [], folder=folder, extra=extra)
        tests = [line for line in log_of(folder) if line.get("event") == "test"]
        checks.that(result.returncode == 0 and b"  test accuracy " in result.stdout,
                    f"{channels}: {result.returncode}, {result.stdout}")
        checks.that(len(tests) == 1 and 0 <= tests[0]["accuracy"] <= 1, f"{channels}: {tests}")
        checks.that((steps_of(folder) == 13) == (held_out is not None), f"{channels}: steps")
        checks.that(held_out is None or held_out in result.stdout, f"{channels}: {result.stdout}")
        answer = tool.must_run(program, ["evaluate", f"--model={folder}/model", "--json",
                                         f"--data={folder}/input/test/rows.tsv"])
        checks.that(abs(json.loads(answer.stdout)["loss"] - tests[0]["loss"]) < 1e-5,
                    f"{channels}: measured {tests}, the model has {answer.stdout}")
    # Parts, of which some are empty, markers and checksums, with and without endings.
    rows = tool.rows(200).splitlines(keepends=True)
    for names in [("part-00000.tsv", "part-00001.tsv", "part-00002.tsv"),
                  ("part-00000", "part-00001", "part-00002"), ("a/1.tsv", "a/2.tsv", "b/1.tsv")]:
        extra = make_job(folder)
        channel = folder / "input" / "train"
        (channel / "rows.tsv").unlink()
        for name, part in zip(names, [rows[:90], rows[90:], []]):
            (channel / name).parent.mkdir(exist_ok=True)
            (channel / name).write_bytes(b"".join(part))
            (channel / f".{Path(name).name}.crc").write_bytes(b"crc")
        (channel / "_SUCCESS").touch()
        (channel / "_temporary").mkdir()
        (channel / "_temporary" / "part.tsv").write_bytes(b"half a ro")
        result = tool.run(program, [], folder=folder, extra=extra)
        checks.that(result.returncode == 0 and steps_of(folder) == 13,
                    f"{names}: {result.returncode}, {result.stderr}")
    # A channel that is a whole data set, and one that nobody uses.
    extra = make_job(folder, ("train", "code"), (200, 1))
    channel = folder / "input" / "train"
    (channel / "rows.tsv").rename(channel / "train.tsv")
    (channel / "dev.tsv").write_bytes(tool.rows(30))
    result = tool.run(program, [], folder=folder, extra=extra)
    checks.that(result.returncode == 0 and b"30 validation" in result.stdout, f"{result.stdout}")
    checks.that(result.stderr == b"channels that are not used: code\n"
                b"30 of 30 validation texts also stand in the training rows\n", f"code: {result.stderr}")


def check_settings(program, folder, checks):
    """What was typed, hyperparameters as tools write them, and the service's own."""
    fewer = {name: value for name, value in HYPERPARAMETERS.items() if name != "epochs"}
    for name, typed in [("train", ["train", "--epochs=2"]), ("the toolkit", ["--epochs", "2"]),
                        ("flags", ["--epochs", "2", "--decay_all", "True", "--keep_best", "False"]),
                        ("typed twice", ["--epochs", "1", "--epochs", "2"])]:
        extra = {**make_job(folder), "SM_HPS": json.dumps(fewer)}
        result = tool.run(program, typed, folder=folder, extra=extra)
        checks.that(result.returncode == 0 and steps_of(folder) == 26,
                    f"{name}: {result.returncode}, {result.stderr}, {steps_of(folder)} steps")
    for key, value, code in [("preset", '"tiny"', 0), ("preset", "tiny", 0), ("preset", '"huge"', 2),
                             ("learning_rate", "1e-4", 0), ("label-column", "null", 0),
                             ("quiet", "false", 0), ("preset", '["tiny"]', 2),
                             ("text_column", '"1"', 0)]:
        extra = {**make_job(folder), "SM_HPS": json.dumps({**HYPERPARAMETERS, key: value})}
        result = tool.run(program, ["train"], folder=folder, extra=extra)
        checks.that(result.returncode == code, f"{key} {value}: {result.returncode}, {result.stderr}")
    extra = make_job(folder)
    extra["SM_HPS"] = json.dumps({**HYPERPARAMETERS, "sagemaker_region": '"x"',
                                  "_tuning_objective_metric": "accuracy"})
    result = tool.run(program, ["train"], folder=folder, extra=extra)
    checks.that(result.returncode == 0 and result.stderr.count(b"\n") == 2 and
                b"_tuning_objective_metric, sagemaker_region" in result.stderr and
                b"validation texts also stand" in result.stderr,
                f"the service's keys: {result.returncode}, {result.stderr}")
    # Whoever says which data are meant, means no job.
    (folder / "own.tsv").write_bytes(tool.rows(64))
    result = tool.run(program, ["train", "--data=own.tsv", "--epochs=1", "--vocab-size=300"],
                      folder=folder, extra=make_job(folder / "other"))
    checks.that(result.returncode == 0 and not any((folder / "other" / "model").iterdir()),
                f"--data in a job: {result.returncode}, {result.stderr}")


# Runs "$@" where /opt is empty but for the layout of a job, whose folder is $JOB.
LAYOUT = """mount -t tmpfs none /opt || exit 99; mkdir -p /opt/ml; mount --bind "$JOB" /opt/ml || exit 99
exec "$@" """


def make_layout(folder, hyperparameters=None, hosts=("algo-1",)):
    tool.fresh_folder(folder)
    for name in ("input/config", "input/data/training", "model", "output"):
        (folder / name).mkdir(parents=True)
    (folder / "input/data/training/part-0.tsv").write_bytes(tool.rows(200))
    settings = folder / "input" / "config"
    text = {name: json.dumps(value) for name, value in (hyperparameters or HYPERPARAMETERS).items()}
    (settings / "hyperparameters.json").write_text(json.dumps(text))
    (settings / "inputdataconfig.json").write_text('{"training": {"TrainingInputMode": "File"}}')
    (settings / "resourceconfig.json").write_text(
        json.dumps({"current_host": hosts[0], "hosts": list(hosts)}))


def in_layout(program, typed, folder, **settings):
    """Starts the program as the service does; None: nothing can be mounted here."""
    extra = {"JOB": str(folder), "TRAINING_JOB_NAME": "job"}
    try:
        process = tool.Process(["unshare", "-m", "sh", "-c", LAYOUT, "sh", program, *typed],
                               env=tool.environment(extra), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, **settings)
    except FileNotFoundError:
        return None
    return process


def check_layout(program, work, checks):
    """Without any variable: the argument train or serve, and folders below /opt/ml."""
    folder = work / "ml"

    def end(name, process, code, error, model):
        output, said = process.communicate(timeout=120)
        failure = folder / "output" / "failure"
        reason = failure.read_text() if failure.exists() else ""
        checks.that(process.returncode == code, f"{name}: exit code {process.returncode}, {said}")
        checks.that(reason.endswith(error), f"{name}: the failure is {reason!r}, {said}")
        checks.that(any((folder / "model").iterdir()) == model, f"{name}: the model's folder")

    make_layout(folder)
    process = in_layout(program, ["train"], folder)
    if process is None:
        return print("skipped: the layout of a job, there is no unshare")
    output, said = process.communicate(timeout=120)
    if process.returncode == 99 or b"unshare" in said:
        return print("skipped: the layout of a job, nothing can be mounted here")
    checks.that(process.returncode == 0, f"the layout: {process.returncode}, {said}")
    checks.that({path.name for path in (folder / "model").iterdir()} == MODEL_FILES, "its model")
    checks.that(log_of(folder)[-1].get("event") == "done", "its log")
    checks.that(not (folder / "output" / "failure").exists(), "its failure")

    with in_layout(program, ["serve", "--port=0"], folder) as server:
        address = server.stdout.readline().strip()
        server.terminate()
        server.communicate(timeout=60)
        checks.that(address.startswith(b"listening on http://0.0.0.0:") and server.returncode == 0,
                    f"serve: {address}, {server.returncode}")

    make_layout(folder, hosts=("algo-1", "algo-2"))
    end("two hosts", in_layout(program, ["train"], folder), 2, "[cli.launch]\n", False)
    make_layout(folder, {**HYPERPARAMETERS, "epoch": 1})
    end("hyperparameter unknown", in_layout(program, ["train"], folder), 2, "[cli.usage]\n", False)
    make_layout(folder)
    (folder / "input/data/training").rename(folder / "input/data/rows")
    (folder / "input/config/inputdataconfig.json").unlink()
    end("no channel to train on", in_layout(program, ["train"], folder), 2, "[cli.usage]\n", False)
    make_layout(folder)
    (folder / "input/config/inputdataconfig.json").write_text('{"train": {}}')
    end("a channel that is a pipe", in_layout(program, ["train"], folder), 2, "[cli.usage]\n", False)
    make_layout(folder)
    (folder / "output").rmdir()
    (folder / "input/config/hyperparameters.json").write_text("{")
    end("no folder for the failure", in_layout(program, ["train"], folder), 2, "[cli.usage]\n", False)

    # Stopped while it reads, and while it learns. The second of two signals ends it at once.
    slow = {**HYPERPARAMETERS, "epochs": 100000, "skip-bad-rows": True}
    make_layout(folder, slow)
    with open(folder / "input/data/training/part-0.tsv", "ab") as rows:
        rows.truncate(1 << 39)
    process = in_layout(program, ["train"], folder)
    # By the file itself: in another mount namespace a link in /proc may hold a path of another root.
    wait_for(lambda: os.path.samefile(f"/proc/{process.pid}/exe", program))
    time.sleep(0.2)
    process.terminate()
    end("stopped while it reads", process, 1, "[cli.interrupted]\n", False)
    make_layout(folder, slow)
    process = in_layout(program, ["train"], folder)
    wait_for(lambda: steps_of(folder) > 2)
    process.terminate()
    end("stopped while it learns", process, 1, "[cli.interrupted]\n", True)


def wait_for(holds):
    for _ in range(6000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it does not come")


def check_bad_jobs(program, folder, checks):
    def empty_channel(extra):
        (Path(extra["SM_CHANNEL_TRAIN"]) / "rows.tsv").unlink()

    def bad_row(extra):
        (Path(extra["SM_CHANNEL_TRAIN"]) / "rows.tsv").write_bytes(tool.rows(9) + b"\xff\t1\n")

    def hyperparameters(text):
        return lambda extra: extra.update(SM_HPS=text)

    def channel(extra):
        extra["SM_CHANNEL_TRAIN"] += "/nowhere"

    for name, code, error, change in [
            ("empty channel", 1, "text.folder", empty_channel),
            ("no channel", 1, "file.read", channel),
            ("bad row", 1, "text.row_encoding", bad_row),
            ("hyperparameters not JSON", 2, "cli.usage", hyperparameters("{epochs: 1")),
            ("hyperparameters a list", 2, "cli.usage", hyperparameters("[]")),
            ("hyperparameter unknown", 2, "cli.usage", hyperparameters('{"epoch": "1"}')),
            ("hyperparameter bad", 2, "cli.usage", hyperparameters('{"epochs": "one"}')),
            ("hyperparameter empty", 2, "cli.usage", hyperparameters('{"checkpoint": "", "resume": true}')),
            ("hyperparameter a list", 2, "cli.usage", hyperparameters('{"epochs": ["1"]}')),
            ("precision", 1, "train.precision", hyperparameters('{"precision": "fp12"}'))]:
        place = folder / name.replace(" ", "_")
        extra = make_job(place)
        change(extra)
        result = tool.run(program, [], folder=place, extra=extra)
        failure = place / "output" / "failure"
        reason = failure.read_text() if failure.exists() else ""
        checks.that(result.returncode == code, f"{name}: exit code {result.returncode}")
        checks.that(reason.endswith(f"[{error}]\n") and reason.count("\n") == 1,
                    f"{name}: the failure is {reason!r}, {result.stderr}")
        checks.that(reason == result.stderr.decode(), f"{name}: standard error is another")
        checks.that(not any((place / "model").iterdir()), f"{name}: there is a model")


def main():
    program, work = os.path.abspath(sys.argv[1]), Path(sys.argv[2]).absolute()
    checks = tool.Checks()
    check_good_job(program, work / "good", checks)
    check_bad_jobs(program, work / "bad", checks)
    check_channels(program, work / "channels", checks)
    check_settings(program, work / "settings", checks)
    check_layout(program, work, checks)
    return checks.finish("training job")


if __name__ == "__main__":
    sys.exit(main())
