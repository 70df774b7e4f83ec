"""What a model's folder remembers, and where it may be: columns, pairs, links; logs and checkpoints of others.

    python3 folders.py PROGRAM WORK_FOLDER
"""

import fcntl
import json
import os
import sys
from pathlib import Path

import program as tool

TRAIN = ["train", "--quiet", "--vocab-size=200", "--max-length=24", "--threads=1"]
WORDS = ["red", "blue", "green", "gold"]


class Work:
    def __init__(self, program, folder):
        self.program, self.folder = program, tool.fresh_folder(folder)
        self.checks = tool.Checks()

    def file(self, name, text):
        (self.folder / name).write_text(text)
        return name

    def run(self, *arguments, text=b""):
        return tool.run(self.program, arguments, folder=self.folder, text=text)

    def must(self, *arguments, text=b""):
        result = self.run(*arguments, text=text)
        self.checks.that(result.returncode == 0, f"{arguments}: {result.stderr}")
        return result.stdout

    def evaluate(self, *arguments):
        """Everything but the time; an error as text."""
        result = self.run("evaluate", "--model=model", "--json", *arguments)
        if result.returncode != 0:
            return result.stderr.decode()
        values = json.loads(result.stdout)
        return {name: value for name, value in values.items() if "seconds" not in name}


def pairs(count, last="label"):
    lines = [f"id\ta\tb\t{last}"]
    for i in range(count):
        x, y = WORDS[i % 4], WORDS[(i + i // 4 % 2) % 4]
        lines.append(f"{i}\t{x} thing {i}\tthe {y} one\t{'same' if x == y else 'other'}")
    return "\n".join(lines) + "\n"


def check_pairs(work):
    """A model of pairs splits by the tab and by the columns of its training rows, or refuses."""
    that = work.checks.that
    data = work.file("pairs.tsv", pairs(200))
    columns = ["--text-column=a", "--pair-column=b", "--label-column=label"]
    work.must(*TRAIN, f"--data={data}", "--epochs=1", *columns, "--output=model")
    config = json.loads((work.folder / "model/config.json").read_text())["soma_input"]
    that(config["pairs"] is True and config["text_columns"] == "a" and config["pair_column"] == "b", f"{config}")

    lines = b"red thing\tthe red one 5\nblue thing\tthe gold one 7\n"
    answers = work.must("predict", "--model=model", text=lines)
    that(answers == work.must("predict", "--model=model", "--pairs", text=lines) and answers.count(b"\n") == 2,
         f"predict without --pairs: {answers}")
    result = work.run("predict", "--model=model", text=b"red thing\n")
    that(result.returncode == 1 and b"line 1 " in result.stderr, f"one text for a pair: {result.stderr}")

    wanted = work.evaluate(f"--data={data}", *columns)
    that(isinstance(wanted, dict), f"with its columns: {wanted}")
    that(work.evaluate(f"--data={data}") == wanted, "evaluate without its columns")
    that(work.evaluate(f"--data={data}", "--label-column=4") == wanted, "one column is given, the others are known")
    objects = [dict(zip(("id", "a", "b", "label"), line.split("\t"))) for line in pairs(200).splitlines()[1:]]
    lines = work.file("pairs.jsonl", "".join(json.dumps(each) + "\n" for each in objects))
    that(work.evaluate(f"--data={lines}") == wanted, "evaluate of JSON lines")
    single = work.file("single.tsv", "text\tlabel\nred thing\tsame\nblue\tother\n")
    said = work.evaluate(f"--data={single}")
    that("--pair-column" in said and "[text.column]" in said, f"single texts for a model of pairs: {said}")

    # Without a header the numbers are remembered, in a table of as many columns.
    bare = work.file("bare.tsv", pairs(200).split("\n", 1)[1])
    numbers = ["--text-column=2", "--pair-column=3", "--label-column=4"]
    work.must(*TRAIN, f"--data={bare}", "--epochs=1", *numbers, "--output=model")
    wanted = work.evaluate(f"--data={bare}", *numbers)
    that(isinstance(wanted, dict) and work.evaluate(f"--data={bare}") == wanted, f"by number: {wanted}")


def check_single(work, kind):
    """A model of single texts, of both kinds: other columns than the usual ones, and no pairs."""
    that = work.checks.that
    rows = "".join(f"{'dull' if i % 2 else 'fine'} film number {i}\t{i % 2}\n" for i in range(100))
    flipped = "".join("\t".join(reversed(line.split("\t"))) + "\n" for line in rows.splitlines())
    data = work.file("flipped.tsv", flipped)
    model = [f"--model-kind={kind}"] if kind == "fast" else ["--epochs=1"]
    train = TRAIN if kind == "bert" else ["train", "--quiet", "--threads=1"]
    columns = ["--text-column=2", "--label-column=1"]
    work.must(*train, *model, f"--data={data}", "--held-out-share=0.2", *columns, "--output=model")
    wanted = work.evaluate(f"--data={data}", *columns)
    that(isinstance(wanted, dict) and work.evaluate(f"--data={data}") == wanted, f"{kind}: {wanted}")
    usual = work.file("usual.tsv", "text\tlabel\n" + rows)
    that(work.evaluate(f"--data={usual}") == wanted, f"{kind}: another form than that of training")
    result = work.run("predict", "--model=model", "--pairs", text=b"a\tb\n")
    that(result.returncode == 2 and b"[cli.usage]" in result.stderr, f"{kind}: --pairs: {result.stderr}")
    data = work.file("pairs.tsv", pairs(8).replace("same", "0").replace("other", "1"))
    said = work.evaluate(f"--data={data}", "--text-column=a", "--pair-column=b", "--label-column=label")
    that("no --pair-column" in said, f"{kind}: pairs for a model of single texts: {said}")


def check_label_separator(work):
    """Several labels, with the separator of the training rows."""
    rows = "".join(f"{'loud ' if i % 2 else ''}{'long ' if i % 3 == 0 else ''}film {i}\t"
                   f"{'|'.join(name for name, given in (('loud', i % 2), ('long', i % 3 == 0)) if given)}\n"
                   for i in range(60))
    data = work.file("several.tsv", rows)
    work.must(*TRAIN, f"--data={data}", "--header=no", "--multi-label", "--label-separator=bar", "--epochs=1",
              "--output=model")
    wanted = work.evaluate(f"--data={data}", "--header=no", "--label-separator=bar")
    work.checks.that(isinstance(wanted, dict) and work.evaluate(f"--data={data}", "--header=no") == wanted,
                     f"the separator of labels: {wanted}")


def check_links(work):
    """--output, and a job's model folder, that is a link to an empty folder or to an earlier model."""
    that = work.checks.that
    work.file("rows.tsv", tool.rows(60).decode())
    (work.folder / "real").mkdir()
    (work.folder / "link").symlink_to("real")
    for attempt in ("an empty folder", "an earlier model"):
        work.must("train", "--quiet", "--threads=1", "--model-kind=fast", "--data=rows.tsv", "--output=link")
        that((work.folder / "link").is_symlink() and (work.folder / "real/model.safetensors").exists(),
             f"a link to {attempt}")
    (work.folder / "nothing").symlink_to("gone")
    result = work.run("train", "--quiet", "--model-kind=fast", "--data=rows.tsv", "--output=nothing")
    that(result.returncode == 1 and b"a symbolic link that names nothing" in result.stderr, f"{result.stderr}")
    result = work.run("train", "--quiet", "--model-kind=fast", "--data=rows.tsv", "--output=link",
                      "--log-json=real/log.jsonl")
    that(result.returncode == 2 and b"is in --output" in result.stderr, f"a log behind a link: {result.stderr}")
    job = tool.fresh_folder(work.folder / "job")
    (job / "train").mkdir()
    (job / "train/rows.tsv").write_bytes(tool.rows(60))
    (job / "disk").mkdir()
    (job / "model").symlink_to(job / "disk")
    result = tool.run(work.program, [], folder=work.folder,
                      extra={"SM_MODEL_DIR": str(job / "model"), "SM_CHANNEL_TRAIN": str(job / "train"),
                             "SM_OUTPUT_DATA_DIR": str(job / "output/data"), "SM_HPS": '{"model_kind": "fast"}'})
    that(result.returncode == 0 and (job / "disk/model.safetensors").exists() and (job / "model").is_symlink(),
         f"a job: {result.stderr}")


def check_others(work):
    """A log that another run writes, and a folder of others among the checkpoints."""
    that = work.checks.that
    arguments = [*tool.THIRTY_STEPS, "--threads=1", "--log-json=log.jsonl", "--checkpoint=steps", "--resume"]
    with open(work.folder / "log.jsonl", "w") as log:
        log.write('{"step": 1}\n')
        log.flush()
        fcntl.flock(log, fcntl.LOCK_EX)
        for options in (arguments, arguments[:-1]):
            result = work.run(*options)
            that(result.returncode == 1 and result.stderr.count(b"\n") == 1 and
                 b"in use by another writer" in result.stderr, f"a log of two runs: {result.stderr}")
    that((work.folder / "log.jsonl").read_text() == '{"step": 1}\n', "the log of the first run")
    strange = work.folder / "steps/step-9999999999"
    strange.mkdir(parents=True)
    (strange / "notes.txt").write_text("mine")
    for attempt in ("begun", "resumed"):
        result = work.run(*arguments)
        that(result.returncode == 0 and b"step-9999999999" in result.stderr, f"{attempt}: {result.stderr}")
        that((strange / "notes.txt").read_text() == "mine", f"{attempt}: a folder of others")
    names = sorted(path.name for path in (work.folder / "steps").iterdir())
    that(names == ["lock", "step-0000000030", "step-9999999999"], f"checkpoints: {names}")


def main():
    work = Work(os.path.abspath(sys.argv[1]), Path(sys.argv[2]).absolute())
    check_pairs(work)
    check_single(work, "bert")
    check_single(work, "fast")
    check_label_separator(work)
    check_links(work)
    check_others(work)
    return work.checks.finish("folders")


if __name__ == "__main__":
    sys.exit(main())
