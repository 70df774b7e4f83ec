#!/usr/bin/env python3
"""The runs behind compare_sparse.sh, which makes the environment that they need."""

import csv
import gzip
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def rows(path):
    """(label, text) of a file that bert_classifier reads as well."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        name = path.removesuffix(".gz")
        if name.endswith((".csv", ".tsv")):
            table = csv.reader(file) if name.endswith(".csv") else (
                line.rstrip("\r\n").split("\t") for line in file)
            for row in table:
                if len(row) >= 2:
                    yield row[1], row[0]
        else:
            for line in file:
                label, text = line.rstrip("\n").split(" ", 1)
                yield label.removeprefix("__label__"), text


def words(text):
    """Lower case, punctuation by itself: what fastText's own scripts do before training."""
    return " ".join(re.findall(r"[^\W_]+|[^\w\s]|_", text.lower()))


def convert(source, target):
    with open(target, "w", encoding="utf-8") as file:
        for label, text in rows(source):
            file.write(f"__label__{label.replace(' ', '-')} {words(text)}\n")


def cpu_of(command, **settings):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env={**os.environ, **ONE_CORE}, **settings)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds, result.stdout.decode()


def ours(program, work, train, test, seed):
    model = work / "ours"
    seconds, _ = cpu_of([program, "train", "--model-kind=fast", "--quiet", "--threads=1",
                         f"--data={train}",
                         f"--seed={seed}", f"--output={model}"])
    report = json.loads(cpu_of([program, "evaluate", f"--model={model}", f"--data={test}",
                                "--threads=1", "--json"])[1])
    return seconds, report["accuracy"], report["text_seconds_p50"], report["text_seconds_p99"]


FASTTEXT = """
import fasttext, resource, sys, time
train, test, epochs, seed, model = sys.argv[1:]
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
start = cpu()
trained = fasttext.train_supervised(train, dim=16, wordNgrams=2, lr=0.5, epoch=int(epochs), thread=1,
                                    bucket=2000000, seed=int(seed), verbose=0)
seconds = cpu() - start
rows = [line.rstrip("\\n").split(" ", 1) for line in open(test, encoding="utf-8")]
times, right = [], 0
for label, text in rows:
    begin = time.perf_counter()
    answer = trained.predict(text)[0][0]
    times.append(time.perf_counter() - begin)
    right += answer == label
times.sort()
print(seconds, right / len(rows), times[len(times) // 2], times[len(times) * 99 // 100])
"""


def fasttext(work, train, test, epochs, seed):
    _, text = cpu_of([sys.executable, "-c", FASTTEXT, train, test, str(epochs), str(seed), work])
    return tuple(map(float, text.split()))


WABBIT = """
import resource, sys
from vowpalwabbit import pyvw
train, test, epochs, seed = sys.argv[1:]
def examples(path):
    for line in open(path, encoding="utf-8"):
        label, text = line.rstrip("\\n").split(" ", 1)
        yield label, text.replace(":", " ").replace("|", " ")
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
start = cpu()
lines = list(examples(train))
names = {label: i + 1 for i, label in enumerate(sorted({label for label, _ in lines}))}
model = pyvw.Workspace(f"--oaa {len(names)} --ngram 2 -b 22 --quiet --random_seed {seed}")
for _ in range(int(epochs)):
    for label, text in lines:
        model.learn(f"{names[label]} | {text}")
seconds = cpu() - start
pairs = list(examples(test))
print(seconds, sum(model.predict(f"| {text}") == names.get(label) for label, text in pairs) / len(pairs))
"""


def wabbit(train, test, epochs, seed):
    _, text = cpu_of([sys.executable, "-c", WABBIT, train, test, str(epochs), str(seed)])
    return tuple(map(float, text.split()))


LINEAR_SVC = """
import resource, sys
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC
train, test, seed = sys.argv[1:]
def rows(path):
    pairs = [line.rstrip("\\n").split(" ", 1) for line in open(path, encoding="utf-8")]
    return [text for _, text in pairs], [label for label, _ in pairs]
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
start = cpu()
texts, labels = rows(train)
kinds = [TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"[^ ]+", sublinear_tf=True),
         TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True)]
model = LinearSVC(random_state=int(seed)).fit(hstack([kind.fit_transform(texts) for kind in kinds]).tocsr(), labels)
seconds = cpu() - start
texts, labels = rows(test)
answers = model.predict(hstack([kind.transform(texts) for kind in kinds]).tocsr())
print(seconds, sum(a == b for a, b in zip(answers, labels)) / len(labels))
"""


def linear_svc(train, test, seed):
    _, text = cpu_of([sys.executable, "-c", LINEAR_SVC, train, test, str(seed)])
    return tuple(map(float, text.split()))


AUTOTUNE = """
import fasttext, resource, sys
train, test, seed, folder = sys.argv[1:]
lines = open(train, encoding="utf-8").readlines()
with open(f"{folder}/tune_train.txt", "w") as kept, open(f"{folder}/tune_held.txt", "w") as held:
    for i, line in enumerate(lines):
        (held if i % 10 == 0 else kept).write(line)
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
start = cpu()
trained = fasttext.train_supervised(f"{folder}/tune_train.txt", autotuneValidationFile=f"{folder}/tune_held.txt",
                                    autotuneDuration=30, thread=1, seed=int(seed), verbose=0)
seconds = cpu() - start
rows = [line.rstrip("\\n").split(" ", 1) for line in open(test, encoding="utf-8")]
print(seconds, sum(trained.predict(text)[0][0] == label for label, text in rows) / len(rows))
"""


def autotune(work, train, test, seed):
    _, text = cpu_of([sys.executable, "-c", AUTOTUNE, train, test, str(seed), str(work)])
    return tuple(map(float, text.split()))


NAPKIN = """
import gzip, resource, sys
import numpy, scipy.sparse
from napkinxc.models import PLT
from napkinxc.metrics import precision_at_k
train, test, seed, folder = sys.argv[1:]
def points(path):
    opened = gzip.open if path.endswith(".gz") else open
    data, ids, ends, labels = [], [], [0], []
    with opened(path, "rt") as file:
        _, features, _ = map(int, next(file).split())
        for line in file:
            head, *rest = line.rstrip("\\n").split(" ")
            if ":" in head:
                head, rest = "", [head, *rest]
            labels.append([int(label) for label in head.split(",") if label])
            for word in filter(None, rest):
                feature, value = word.split(":")
                ids.append(int(feature))
                data.append(float(value))
            ends.append(len(ids))
    return scipy.sparse.csr_matrix((numpy.array(data, dtype=numpy.float32), ids, ends), shape=(len(labels), features)), labels
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
start = cpu()
x, y = points(train)
model = PLT(folder, seed=int(seed), threads=1)
model.fit(x, y)
seconds = cpu() - start
x, y = points(test)
best = model.predict(x, top_k=5)
print(seconds, *precision_at_k(y, best, k=5)[[0, 2, 4]])
"""


def napkin(work, train, test, seed):
    folder = work / "napkin"
    shutil.rmtree(folder, ignore_errors=True)
    _, text = cpu_of([sys.executable, "-c", NAPKIN, train, test, str(seed), str(folder)])
    return tuple(map(float, text.split()[-4:]))


def extreme(program, train, test, seed):
    seconds, text = cpu_of([str(pathlib.Path(program).with_name("extreme_classifier")), "train", f"--data={train}",
                            f"--test={test}", f"--seed={seed}", "--threads=1"])
    found = re.search(r"P@1 ([\d.]+), P@3 ([\d.]+), P@5 ([\d.]+)", text)
    return seconds, *map(float, found.groups())


def compare_points(program, work, name, train, test, rounds):
    runs = {"ours": lambda seed: extreme(program, train, test, seed),
            "napkinXC": lambda seed: napkin(work, train, test, seed)}
    for each, measured in results_of(runs, rounds).items():
        least = min(one[0] for one in measured)
        means = [f"{sum(one[i] for one in measured) / len(measured):.4f}" for i in (1, 2, 3)]
        print("\t".join([name, each, f"{least:.2f}", *means]), flush=True)


def results_of(runs, rounds):
    """Of each peer that runs, in turns: what it gave for each seed."""
    results = {}
    for seed in range(1, rounds + 1):
        for each, run in runs.items():
            try:
                results.setdefault(each, []).append(run(seed))
            except subprocess.CalledProcessError as error:
                if seed == 1:
                    print(f"{each} is left out: {error.stderr.decode().splitlines()[-1:]}", file=sys.stderr)
    return {each: measured for each, measured in results.items() if measured}


def main():
    rounds = [int(word.split("=")[1]) for word in sys.argv if word.startswith("--rounds=")]
    rounds = rounds[0] if rounds else 3
    words = [word for word in sys.argv[1:] if not word.startswith("--rounds=")]
    program, work = words[0], pathlib.Path(words[1])
    print("set\tprogram\tCPU seconds\taccuracy, or P@1, P@3, P@5\tp50 us\tp99 us")
    for argument in words[2:]:
        name, paths = argument.split("=", 1)
        train, test, *epochs = paths.split(",")
        if train.removesuffix(".gz").endswith(".xmc"):
            compare_points(program, work, name, train, test, rounds)
            continue
        epochs = int(epochs[0]) if epochs else 5
        converted = [str(work / f"{name}.{part}.txt") for part in ("train", "test")]
        convert(train, converted[0])
        convert(test, converted[1])
        runs = {"ours": lambda seed: ours(program, work, train, test, seed),
                "fastText": lambda seed: fasttext(work, *converted, epochs, seed),
                "VW": lambda seed: wabbit(*converted, epochs, seed),
                "LinearSVC": lambda seed: linear_svc(*converted, seed),
                "fastText, autotune": lambda seed: autotune(work, *converted, seed)}
        for each, measured in results_of(runs, rounds).items():
            least = min(one[0] for one in measured)
            accuracy = sum(one[1] for one in measured) / len(measured)
            times = [f"{min(one[i] for one in measured) * 1e6:.1f}" for i in (2, 3) if len(measured[0]) > i]
            print("\t".join([name, each, f"{least:.2f}", f"{accuracy:.4f}", *times]), flush=True)


if __name__ == "__main__":
    main()
