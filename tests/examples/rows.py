"""Rows as people have them: headers, columns, pairs, several labels, rare classes; and what the command line says.

    python3 rows.py PROGRAM WORK_FOLDER
"""

import gzip
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import program as tool

TRAIN = ["train", "--quiet", "--vocab-size=300", "--max-length=16", "--threads=1", "--epochs=1"]
NAMES = {b"\t0": b"\tdull", b"\t1": b"\tgood"}


def named(count=60):
    """Rows of the classes dull and good."""
    rows = tool.rows(count)
    for number, name in NAMES.items():
        rows = rows.replace(number, name)
    return rows


class Work:
    def __init__(self, program, folder, checks):
        self.program, self.folder, self.checks = program, folder, checks

    def file(self, name, content):
        (self.folder / name).write_bytes(content)
        return f"--data={name}"

    def run(self, *arguments, text=b""):
        return tool.run(self.program, arguments, folder=self.folder, text=text)

    def train(self, *arguments):
        """What the report says, and the classes of the model."""
        tool.must_run(self.program, [*TRAIN, *arguments, "--output=model"], folder=self.folder)
        names = json.loads((self.folder / "model/config.json").read_text())["id2label"]
        return [names[str(i)] for i in range(len(names))]

    def report(self, *arguments):
        return tool.must_run(self.program, [*TRAIN, *arguments], folder=self.folder).stdout.decode()


def hash_of(report):
    return re.search(r"weights hash +(\w+)", report).group(1)


def check_headers(work):
    that, rows = work.checks.that, named()
    plain = hash_of(work.report(work.file("plain.tsv", rows)))
    headers = ["text\tlabels", "tweet\tairline_sentiment", "Sentence\tCategory", "foo\ttarget", "review_text\tmood"]
    for header in headers:
        data = work.file("a.tsv", header.encode() + b"\n" + rows)
        that(work.train(data) == ["dull", "good"], f"{header}: two classes")
        that(hash_of(work.report(data)) == plain, f"{header}: the weights of the rows without it")
    streamed = hash_of(work.report("--data=plain.tsv", "--stream=1"))
    for header in headers:
        data = work.file("a.tsv", header.encode() + b"\n" + rows)
        that(hash_of(work.report(data, "--stream=1")) == streamed, f"{header}: streamed, the same weights")
    # Each file has a header or none.
    work.file("dev.tsv", rows)
    work.file("headed.tsv", b"tweet\tmood\n" + rows)
    for data, dev, more in itertools.product(["plain", "headed"], ["dev", "headed"], [[], ["--stream=5"]]):
        text = work.report(f"--data={data}.tsv", f"--dev={dev}.tsv", *more)
        that(re.search(r"\b60 validation", text), f"validation rows of {dev} beside {data} {more}: {text}")
    data = work.file("a.tsv", b"heading\tmood\n" + rows)
    for more in [[], ["--stream=5"]]:
        that(work.train(data, "--header=yes", *more) == ["dull", "good"], f"--header yes {more}")
        that(work.train(data, "--header=no", *more) == ["dull", "good", "mood"], f"--header no {more}")
    # The header names columns in the other order.
    swapped = b"".join(b"\t".join(reversed(line.split(b"\t"))) + b"\n" for line in rows.splitlines())
    that(hash_of(work.report(work.file("a.tsv", b"mood\tmessage\n" + swapped))) == plain, "label and text swapped")
    # evaluate reads headers, too, and knows the classes.
    that(work.train("--data=plain.tsv") == ["dull", "good"], "a model")
    work.file("test.tsv", b"heading\tmood\n" + rows)
    result = work.run("evaluate", "--model=model", "--data=test.tsv", "--json")
    that(result.stderr.endswith(b"[text.header]\n"), f"evaluate asks: {result.stderr}")
    result = work.run("evaluate", "--model=model", "--data=test.tsv", "--json", "--header=yes")
    that(json.loads(result.stdout)["rows"] == 60, "evaluate --header yes")
    work.file("test.tsv", b"a dull film\tdull\na good film\tgood\none more\tgood\n")
    result = work.run("evaluate", "--model=model", "--data=test.tsv", "--json")
    that(json.loads(result.stdout)["rows"] == 3, "a known class is no header")


def check_columns(work):
    that = work.checks.that
    rows = [line.split("\t") for line in named().decode().splitlines()]
    joined = "title,content,label\n" + "".join(f"{text[:6]},{text[7:]},{label}\n" for text, label in rows)
    plain = "".join(f"{text[:6]} {text[7:]}\t{label}\n" for text, label in rows)
    wanted = hash_of(work.report(work.file("a.tsv", plain.encode())))
    data = work.file("a.csv", joined.encode())
    that(hash_of(work.report(data, "--text-columns=title,content")) == wanted, "joined columns")
    data = work.file("a.csv", joined.replace(",", ";").encode())
    for name in ["semicolon", ";"]:
        that(hash_of(work.report(data, "--text-columns=title,content", f"--separator={name}")) == wanted,
             f"--separator {name}")
    for bad in [["--separator=ab"], ["--separator=\""], ["--text-columns=title,,content"],
                ["--text-columns=title", "--text-column=content"]]:
        result = work.run(*TRAIN, data, *bad)
        that(result.returncode == 2 and result.stderr.endswith(b"[cli.usage]\n"), f"{bad}: {result.stderr}")

    # Pairs: whether both texts name the same number.
    lines = ["first,second,label"]
    for i in range(80):
        lines.append(f"number {i % 5},number {(i + i // 5 % 2) % 5},{'other' if i // 5 % 2 else 'same'}")
    data = work.file("pairs.csv", "\n".join(lines).encode())
    pairs = ["--text-column=first", "--pair-column=second"]
    that(work.train(data, *pairs, "--dev=pairs.csv") == ["other", "same"], "a model of pairs")
    texts = b"".join(b"%s\t%s\n" % tuple(line.encode().split(b",")[:2]) for line in lines[1:])
    answers = work.run("predict", "--model=model", "--pairs", text=texts).stdout.splitlines()
    work.run("evaluate", "--model=model", data, *pairs, "--confusion=table.csv")
    table = [[int(cell) for cell in row.split(",")[1:]]
             for row in (work.folder / "table.csv").read_text().splitlines()[1:]]
    counted = [[0, 0], [0, 0]]
    for line, answer in zip(lines[1:], answers):
        counted[["other", "same"].index(line.split(",")[2])][
            ["other", "same"].index(answer.split(b"\t")[0].decode())] += 1
    that(counted == table, f"predict and evaluate agree on pairs: {counted}, {table}")
    # The pair is more than its first text.
    first, second = (work.run("predict", "--model=model", "--pairs", text=b"number 1\tnumber %d\n" % number).stdout
                     for number in (1, 2))
    that(first != second, "the second text counts")
    in_memory = hash_of(work.report(data, *pairs, "--dev=pairs.csv", "--no-shuffle"))
    that(hash_of(work.report(data, *pairs, "--dev=pairs.csv", "--no-shuffle", "--stream=9")) == in_memory,
         "pairs that are streamed")
    result = work.run("predict", "--model=model", "--pairs", text=b"a\tb\nc\n")
    that(result.returncode == 1 and result.stderr.startswith(b"predict: line 2 "), f"no pair: {result.stderr}")


def check_several(work):
    """Rows with several labels, in three formats: the same model."""
    that = work.checks.that
    rows = [(f"{'loud ' if i % 2 else ''}{'long ' if i % 3 == 0 else ''}film number {i}",
             [name for name, given in [("loud", i % 2), ("long", i % 3 == 0)] if given]) for i in range(60)]
    formats = {
        "a.csv": "text,tags\n" + "".join(f'{text},"{", ".join(labels)}"\n' for text, labels in rows),
        "a.jsonl": "".join(json.dumps({"text": text, "label": labels}) + "\n" for text, labels in rows),
        "a.ft": "__label__loud __label__long loud long film\n" +
                "".join("".join(f"__label__{label} " for label in labels) + text + "\n" for text, labels in rows)}
    hashes = set()
    for name, content in formats.items():
        data = work.file(name, content.encode())
        that(work.train(data, "--multi-label") == ["long", "loud"], f"{name}: two labels")
        if name != "a.ft":  # which has a row more
            hashes.add(hash_of(work.report(data, "--multi-label")))
        result = work.run(*TRAIN, data)
        that((b"[text.row_label]" if name == "a.ft" else b"[text.row_json]" if name == "a.jsonl" else
              b"[text.row_label]") in result.stderr, f"{name} without --multi-label: {result.stderr}")
    that(len(hashes) == 1, "a table and JSON lines train the same model")
    config = json.loads((work.folder / "model/config.json").read_text())
    that(config["problem_type"] == "multi_label_classification", "the model's kind")
    streamed = [hash_of(work.report("--data=a.csv", "--dev=a.csv", "--multi-label", "--no-shuffle", *more))
                for more in [[], ["--stream=5"]]]
    that(streamed[0] == streamed[1], "several labels, streamed")
    text = work.report("--data=a.csv", "--multi-label", "--metric=micro_f1", "--keep-best")
    that("by micro F1" in text, f"--metric of several labels: {text}")
    result = work.run(*TRAIN, "--data=a.csv", "--multi-label", "--class-weights=balanced")
    that(result.returncode == 2, "weights of classes are for one label")


def check_lists(work):
    """Several labels as lists in a cell, and as columns of 0 and 1."""
    that = work.checks.that
    rows = [(f"{'dull' if i % 2 else 'fine'} film number {i}", ["xy"[i % 2]] + (["b"] if i % 3 else []))
            for i in range(120)]
    forms = {"plain": ",".join, "json": json.dumps, "python": repr, "tuple": lambda labels: repr(tuple(labels))}
    hashes = {}
    for name, form in forms.items():
        cells = [form(labels).replace('"', '""') for _, labels in rows]
        table = "text,labels\n" + "".join(f'{text},"{cell}"\n' for (text, _), cell in zip(rows, cells))
        data = work.file("a.csv", table.encode())
        that(work.train(data, "--multi-label") == ["b", "x", "y"], f"{name}: three labels")
        hashes[name] = hash_of(work.report(data, "--multi-label"))
        if name != "plain":
            result = work.run(*TRAIN, data)
            that(b"--multi-label" in result.stderr and b"[text.row_label]" in result.stderr, f"{name}: {result.stderr}")
    flags = "text,x,y,b\n" + "".join(f"{text}," + ",".join(str(int(name in labels)) for name in "xyb") + "\n"
                                     for text, labels in rows)
    data = work.file("flags.csv", flags.encode())
    hashes["columns"] = hash_of(work.report(data, "--label-columns=x,y,b"))
    that(len(set(hashes.values())) == 1, f"the same model from each form: {hashes}")
    streamed = [hash_of(work.report(data, "--dev=flags.csv", "--label-columns=b, y,x", "--no-shuffle", *more))
                for more in [[], ["--stream=5"]]]
    that(streamed[0] == streamed[1], "columns of labels, streamed")
    that(work.train(data, "--label-columns=x,y,b") == ["b", "x", "y"], "a model of columns")
    result = work.run("evaluate", "--model=model", data, "--label-columns=x,y,b", "--json")
    that(json.loads(result.stdout)["rows"] == 120, f"evaluate of columns: {result.stderr}")
    for bad in [["--label-column=x"], ["--regression"]]:
        result = work.run("train", "--quiet", data, "--label-columns=x,y,b", *bad)
        that(result.returncode != 0 and result.stderr.count(b"\n") == 1, f"{bad}: {result.stderr}")
    names, _ = fast_classes(work, data, "--label-columns=x,y,b")
    that(names == ["b", "x", "y"], f"columns of labels, fast: {names}")


def fast_classes(work, *arguments):
    """The classes of a model of the fast kind, and what training said."""
    result = tool.must_run(work.program, ["train", "--model-kind=fast", "--quiet", "--threads=1", "--epochs=1",
                                          "--output=fast", *arguments], folder=work.folder)
    return json.loads((work.folder / "fast/config.json").read_text())["labels"].split(), result.stderr.decode()


def check_label_place(work):
    """Labels in the first column; columns that say nothing; more classes than rows can teach."""
    that = work.checks.that
    rows = [(f"{'dull' if i % 2 else 'fine'} film number {i}", "pos" if i % 2 else "neg") for i in range(80)]
    usual = work.file("usual.tsv", "".join(f"{text}\t{label}\n" for text, label in rows).encode())
    first = work.file("first.csv", "".join(f'"{label}","{text}"\n' for text, label in rows).encode())
    wanted = hash_of(work.report(usual))
    result = tool.must_run(work.program, [*TRAIN, first], folder=work.folder)
    that(hash_of(result.stdout.decode()) == wanted, "labels in front of the texts train the same model")
    that(b"taken from column 1" in result.stderr and b"--label-column" in result.stderr, f"{result.stderr}")
    streams = [hash_of(work.report(data, "--no-shuffle", "--stream=9")) for data in [usual, first]]
    that(streams[0] == streams[1], "the same, streamed")
    for data in [usual, first]:
        names, says = fast_classes(work, data)
        that(names == ["neg", "pos"] and ("column 1" in says) == (data == first), f"fast: {names} {says}")
    result = work.run("evaluate", "--model=fast", first, "--json")
    # The folder remembers its columns: nothing is guessed.
    that(json.loads(result.stdout)["rows"] == 80 and result.stderr == b"", f"evaluate: {result.stderr}")
    data = work.file("own.tsv", b"".join(b"a text about %d\tname %d\n" % (i, i) for i in range(30)))
    for kind in ["bert", "fast"]:
        result = work.run("train", "--quiet", data, f"--model-kind={kind}")
        that(result.stderr.endswith(b"[text.column]\n") and b"--label-column" in result.stderr, f"{kind}: {result.stderr}")
    names, says = fast_classes(work, data, "--label-column=2")
    that("60 classes" in says or "30 classes in 30 rows" in says, f"more classes than half of the rows: {says}")
    names, says = fast_classes(work, work.file("half.tsv", b"a\tx\nb\ty\nc\tx\nd\ty\n"))
    that(says == "", f"as many classes as half of the rows: {says}")


def check_same_labels(work):
    that = work.checks.that
    rows = [(f"{'dull' if i % 2 else 'fine'} film number {i}", i % 2) for i in range(80)]
    plain = "".join(f"{text}\t{label}\n" for text, label in rows)
    for one, other in [("1", "1.0"), ("True", "true"), ("caf\u00e9", "cafe\u0301"), ("good", "go\u00adod")]:
        mixed = "".join(f"{text}\t{(one if i % 3 else other) if label else 'none'}\n"
                        for i, (text, label) in enumerate(rows))
        data = work.file("mixed.tsv", mixed.encode())
        for kind in [["--vocab-size=200"], ["--model-kind=fast"], ["--vocab-size=200", "--stream=9"]]:
            result = work.run("train", "--quiet", data, *kind)
            that(result.stderr.endswith(b"[text.label_alike]\n") and b"line 2 of" in result.stderr and
                 b"line 4 of" in result.stderr, f"{one!r}, {other!r} {kind}: {result.stderr}")
        that(sorted(work.train(data, "--merge-labels")) == sorted([one, "none"]), f"{one!r}, {other!r} merged")
        that(sorted(work.train(data, "--merge-labels", "--stream=9")) == sorted([one, "none"]), "merged, streamed")
    names, says = fast_classes(work, work.file("case.tsv", plain.replace("\t0", "\tDull").replace(
        "\t1", "\tfine").replace("number 4\tDull", "number 4\tdull").encode()))
    that(names == ["Dull", "dull", "fine"] and "differ by case" in says, f"two classes, and a line: {names} {says}")
    # A model knows its labels in the spelling of other files, where that is wanted.
    work.train(work.file("plain.tsv", plain.encode()))
    data = work.file("dotted.jsonl", "".join(json.dumps({"text": text, "label": float(label)}) + "\n"
                                             for text, label in rows).encode())
    result = work.run("evaluate", "--model=model", data, "--json")
    that(result.stderr.endswith(b"[text.label_unseen]\n") and b"--merge-labels" in result.stderr, f"{result.stderr}")
    result = work.run("evaluate", "--model=model", data, "--json", "--merge-labels")
    that(result.stdout and json.loads(result.stdout)["rows"] == 80, f"{result.stderr}")


def check_known_texts(work):
    """A line says how many validation texts are training texts."""
    that = work.checks.that
    data = work.file("train.tsv", tool.rows(60))
    other = b"another text\t1\n"
    for more in [["--model-kind=fast"], ["--vocab-size=200"], ["--vocab-size=200", "--stream=9"]]:
        for dev, says in [(other, None), (other + tool.rows(1) * 2, b"2 of 3 validation texts"), (tool.rows(20), b"20 of 20")]:
            work.file("dev.tsv", dev)
            result = work.run("train", "--quiet", "--epochs=1", data, "--dev=dev.tsv", *more)
            that(result.returncode == 0 and (says or b"") in result.stderr and
                 (b"also stand in" in result.stderr) == (says is not None), f"{more}: {says} {result.stderr}")
    pairs = b"first,second,label\n" + b"".join(b"number %d,number %d,%d\n" % (i, i % 7, i % 2) for i in range(40))
    work.file("pairs.csv", pairs)
    work.file("dev.csv", b"first,second,label\nnumber 1,number 1,1\nnumber 1,number 2,1\n")
    result = work.run(*TRAIN, "--data=pairs.csv", "--dev=dev.csv", "--text-column=first", "--pair-column=second")
    that(b"1 of 2 validation texts" in result.stderr, f"a pair is both texts: {result.stderr}")


def check_streams(work):
    """Standard input and pipes are read where one pass is enough."""
    that = work.checks.that
    content = tool.rows(80)
    data = work.file("rows.tsv", content)
    wanted = hash_of(work.report(data))
    for form in [content, gzip.compress(content), content.decode().encode("utf-16")]:
        result = work.run(*TRAIN, "--data=-", text=form)
        that(result.returncode == 0 and hash_of(result.stdout.decode()) == wanted, f"standard input: {result.stderr}")
    table = content.replace(b"\t", b",")
    result = work.run(*TRAIN, "--data=-", text=table)
    that(result.returncode == 0 and hash_of(result.stdout.decode()) == wanted, f"CSV of no name: {result.stderr}")
    piped = subprocess.run(["bash", "-c", '"$0" "$@" --data <(cat rows.tsv) --dev <(cat rows.tsv)', work.program, *TRAIN],
                           cwd=work.folder, capture_output=True, env=tool.environment(), timeout=60)
    that(piped.returncode == 0 and
         hash_of(piped.stdout.decode()) == hash_of(work.report(data, "--dev=rows.tsv")), f"{piped.stderr}")
    for more in [["--stream=9"], ["--dev=-"]]:
        result = work.run(*TRAIN, "--data=-", *more, text=content)
        that(result.returncode == 2 and b"can be read once" in result.stderr and result.stderr.count(b"\n") == 1,
             f"{more}: {result.stderr}")


def check_rare(work):
    that = work.checks.that
    rows = "".join(f"{'odd' if i % 16 == 0 else 'usual'} film number {i}\t{'yes' if i % 16 == 0 else 'no'}\n"
                   for i in range(320))
    data = work.file("rare.tsv", rows.encode())
    work.file("dev.tsv", rows.encode())
    text = work.report(data, "--dev=dev.tsv", "--learning-rate=1e-7")
    that("one class only; always guessing the most frequent one gets 0.9375" in text, f"one class: {text}")
    work.train(data, "--dev=dev.tsv", "--learning-rate=1e-7")
    text = work.run("evaluate", "--model=model", "--data=dev.tsv").stdout.decode()
    that("predicts one class only, no; always guessing the most frequent one gets 0.9375" in text, f"evaluate: {text}")
    text = tool.must_run(work.program, [option for option in TRAIN if option != "--quiet"] +
                         [data, "--dev=dev.tsv", "--learning-rate=1e-7"], folder=work.folder).stderr.decode()
    that("predicts one class only" in text, "a line while training")

    plain = work.report(data, "--dev=dev.tsv")
    balanced = work.report(data, "--dev=dev.tsv", "--class-weights=balanced")
    # 300 rows of no and 20 of yes: 320 / (2 * 300) and 320 / (2 * 20).
    (work.folder / "w.json").write_text(json.dumps({"yes": 8, "no": 320 / 600}))
    that(hash_of(work.report(data, "--dev=dev.tsv", "--class-weights=w.json")) == hash_of(balanced),
         "balanced is rows / (classes * rows of the class)")
    that(hash_of(plain) != hash_of(balanced), "weights change what is learnt")
    streamed = ["--dev=dev.tsv", "--class-weights=balanced", "--no-shuffle"]
    that(hash_of(work.report(data, *streamed)) == hash_of(work.report(data, *streamed, "--stream=7")),
         "balanced of a stream")

    for metric, title in [("loss", "validation loss"), ("macro_f1", "macro F1"), ("accuracy", "accuracy")]:
        text = work.report(data, "--dev=dev.tsv", f"--metric={metric}", "--keep-best")
        that(re.search(f"weights +of the best evaluation, by {title}\n", text), f"{metric}: {text}")
    result = work.run(*TRAIN, data, "--metric=r2")
    that(result.returncode == 1 and b'"r2", wanted one of loss, accuracy, macro_f1, auc' in result.stderr,
         f"{result.stderr}")
    that(work.run(*TRAIN, data, "--metric=f1").returncode == 2, "no such metric")
    # A best model by one metric is not compared with one by another.
    kept = ["--dev=dev.tsv", "--keep-best", "--checkpoint=steps", "--warmup-steps=1", "--schedule=constant"]
    work.report(data, *kept, "--metric=macro_f1")
    result = work.run(*TRAIN, data, *kept, "--resume", "--epochs=2")
    that(result.stderr.endswith(b"[checkpoint.identity]\n") and b"macro_f1" in result.stderr, f"{result.stderr}")
    work.report(data, *kept, "--metric=macro_f1", "--resume", "--epochs=2")


def check_command_line(work):
    that = work.checks.that
    version = work.run("--version")
    that(version.returncode == 0 and re.fullmatch(rb"bert_classifier \d+\.\d+\.\d+\n", version.stdout), f"{version}")
    for word, says in [("trian", b"is train meant?"), ("evalute", b"is evaluate meant?"), ("predict ", b"is predict"),
                       ("x", b"wanted one of train, plan, evaluate, predict, embed, serve, describe")]:
        result = work.run(word)
        that(result.returncode == 2 and says in result.stderr and result.stderr.count(b"\n") == 1, f"{result.stderr}")
    for command in ["train", "plan", "evaluate", "predict", "serve", "describe"]:
        text = work.run(command, "--help").stdout
        that(not re.search(rb"\d{13}", text), f"{command} --help has a number that says nothing")
    result = work.run(*TRAIN, "--data=plain.tsv", "--evaluate-every=-1")
    that(result.returncode == 2 and b"whole number from 0" in result.stderr, f"{result.stderr}")
    result = work.run(*TRAIN, "--data=plain.tsv", "--max-steps=99999999999999999999")
    that(result.returncode == 2 and b"9223372036854775807" in result.stderr, f"{result.stderr}")
    first = work.report("--data=plain.tsv").splitlines()[0]
    that("the trained model will not be kept" in first, f"without --output: {first}")
    that("--output" not in work.report("--data=plain.tsv", "--output=model"), "with --output")
    result = work.run(*TRAIN, work.file("same.tsv", b"same\t1\nsame\t0\n" * 20))
    that(b"equal ones stay together" in result.stderr, f"{result.stderr}")


def main():
    work = Work(sys.argv[1], tool.fresh_folder(Path(sys.argv[2])), tool.Checks())
    for check in [check_headers, check_columns, check_several, check_lists, check_label_place,
                  check_same_labels, check_known_texts, check_streams, check_rare, check_command_line]:
        check(work)
    return work.checks.finish("rows")


if __name__ == "__main__":
    sys.exit(main())
