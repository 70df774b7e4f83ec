"""The training job of a hosting service: no arguments, all from the environment.

    python3 training_job.py PROGRAM WORK_FOLDER
"""

import json
import os
import sys
from pathlib import Path

import program as tool

HYPERPARAMETERS = {"epochs": "1", "batch_size": 16, "vocab-size": "300", "max_length": "32",
                   "quiet": "true", "keep_best": False, "decay-all": True}
MODEL_FILES = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
               "vocab.txt"}


def make_job(folder):
    """The folders that the service makes, and the environment that says where they are."""
    tool.fresh_folder(folder)
    places = {"SM_CHANNEL_TRAIN": folder / "input" / "train",
              "SM_CHANNEL_TEST": folder / "input" / "test", "SM_MODEL_DIR": folder / "model",
              "SM_OUTPUT_DATA_DIR": folder / "output" / "data"}
    for place in places.values():
        place.mkdir(parents=True)
    (places["SM_CHANNEL_TRAIN"] / "rows.tsv").write_bytes(tool.rows(200))
    (places["SM_CHANNEL_TEST"] / "rows.tsv").write_bytes(tool.rows(40))
    extra = {name: str(place) for name, place in places.items()}
    return {**extra, "SM_HPS": json.dumps(HYPERPARAMETERS)}


def check_good_job(program, folder, checks):
    extra = make_job(folder)
    extra["SM_OUTPUT_DATA_DIR"] += "/"  # some services end folders so
    result = tool.run(program, [], folder=folder, extra=extra)
    checks.that(result.returncode == 0, f"a job: {result.returncode}, {result.stderr}")
    checks.that({path.name for path in (folder / "model").iterdir()} == MODEL_FILES,
                "a job's model is not whole")
    log = tool.log_lines(folder / "output" / "data" / "log.jsonl")
    checks.that(len([line for line in log if "grad_norm" in line]) == 13, "13 batches of 16 of 200")
    checks.that(log[-1].get("event") == "done", "the log's last line")
    checks.that(not (folder / "output" / "failure").exists(), "a good job writes no failure")
    answer = tool.run(program, ["predict", f"--model={folder}/model"], text=b"a good film\n")
    checks.that(answer.returncode == 0 and answer.stdout.count(b"\n") == 1, "the job's model")


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
    return checks.finish("training job")


if __name__ == "__main__":
    sys.exit(main())
