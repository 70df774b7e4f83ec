"""The fast kind on real texts: unseen words do not make it certain, probabilities are true, folders in 8 bits answer
as the weights in fp32 do.

    python3 fast_sets.py PROGRAM WORK_FOLDER

Needs the folder of data beside the checkout (SOMA_SHARED). Exit code 77: it is not there.
"""

import csv
import gzip
import json
import os
import random
import sys
from collections import Counter
from pathlib import Path

import program as tool

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("SOMA_SHARED", ROOT.parent / "shared"))
# Training and test rows; the most expected error of 15 bins, loss, and bytes of the folder.
SETS = {"sst2": ("sst2/train.tsv", "sst2/test.tsv", 0.07, 0.40, 2e6),
        "ag_news": ("ag_news/train.csv", "ag_news/test.csv", 0.07, 0.40, 4e6),
        "imdb": ("imdb/train.ft.txt.gz", "imdb/dev.ft.txt.gz", 0.07, 0.21, 4e6),
        "clinc150": ("clinc150/train.ft.txt", "clinc150/test.ft.txt", 0.07, 0.40, 14e6)}


def rows(path):
    """Text and label of each row."""
    opened = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        if path.name.endswith(".csv"):
            return [(row[0], row[1]) for row in csv.reader(file)]
        if path.name.endswith(".tsv"):
            return [tuple(line.rstrip("\n").split("\t")[:2]) for line in file]
        return [(line.rstrip("\n").split(" ", 1)[1], line.split(" ", 1)[0].removeprefix("__label__")) for line in file]


def answers(program, model, texts):
    """Label and probability of each text."""
    lines = tool.must_run(program, ["predict", f"--model={model}"], timeout=600,
                          text="\n".join(" ".join(text.split()) for text in texts).encode() + b"\n").stdout
    return [(label, float(p)) for label, p in (line.split("\t") for line in lines.decode().splitlines())]


def expected_error(probabilities, right):
    """The mean over 15 bins of equal width of the distance between accuracy and mean probability, by rows."""
    bins = [[] for _ in range(15)]
    for p, hit in zip(probabilities, right):
        bins[min(int(p * 15), 14)].append((p, hit))
    return sum(abs(sum(p for p, _ in own) - sum(hit for _, hit in own)) for own in bins) / len(right)


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def check_unseen(program, model, train, known, checks, name):
    draw = random.Random(3)

    def word():
        return "".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(9))

    base = max(Counter(label for _, label in train).values()) / len(train)
    for what, texts in (("words", [word() for _ in range(300)]),
                        ("texts", [" ".join(word() for _ in range(20)) for _ in range(300)])):
        p = [one for _, one in answers(program, model, texts)]
        checks.that(mean(p) <= base + 0.05 and max(p) < 0.9,
                    f"{name}: unseen {what} have p {mean(p):.3f}, at most {max(p):.3f}; base rate {base:.3f}")
        print(f"{name}: unseen {what}: p {mean(p):.3f}, at most {max(p):.3f}; base rate {base:.3f}")
    short = [" ".join(text.split()[:10]) for text, _ in known[:300]]
    diluted = [" ".join([text, *(word() for _ in range(90))]) for text in short]
    before, after = (mean(p for _, p in answers(program, model, texts)) for texts in (short, diluted))
    checks.that(after < before - 0.1, f"{name}: p {before:.3f}, with unseen words {after:.3f}")
    print(f"{name}: p {before:.3f}, with ninety unseen words {after:.3f}")


def main():
    program, work = sys.argv[1], tool.fresh_folder(Path(sys.argv[2]))
    if not (SHARED / "data").is_dir():
        print(f"SKIPPED: no data in {SHARED}")
        return 77
    checks = tool.Checks()
    for name, (train, test, most_error, most_loss, most_bytes) in SETS.items():
        train, test = SHARED / "data" / train, SHARED / "data" / test
        for folder, options in ((name, []), (f"{name}_fp32", ["--precision=fp32"])):
            tool.must_run(program, ["train", "--model-kind=fast", "--quiet", f"--data={train}",
                                    f"--output={work / folder}", *options], timeout=600)
        known = rows(test)
        compact = answers(program, work / name, [text for text, _ in known])
        exact = answers(program, work / f"{name}_fp32", [text for text, _ in known])
        changed = sum(a[0] != b[0] for a, b in zip(compact, exact))
        checks.that(changed <= 0.002 * len(known), f"{name}: 8 bits change {changed} of {len(known)} labels")
        size = sum(file.stat().st_size for file in (work / name).iterdir())
        checks.that(size <= most_bytes, f"{name}: {size} bytes")
        right = [label == wanted for (label, _), (_, wanted) in zip(compact, known)]
        error = expected_error([p for _, p in compact], right)
        loss = json.loads(tool.must_run(program, ["evaluate", f"--model={work / name}", f"--data={test}", "--json"],
                                        timeout=600).stdout)["loss"]
        checks.that(error <= most_error and loss <= most_loss, f"{name}: error {error:.3f}, loss {loss:.3f}")
        print(f"{name}: accuracy {mean(right):.4f}, expected error {error:.3f}, loss {loss:.3f}, {size} bytes, "
              f"{changed} labels changed")
        check_unseen(program, work / name, rows(train), known, checks, name)
    return checks.finish("fast_sets")


if __name__ == "__main__":
    sys.exit(main())
