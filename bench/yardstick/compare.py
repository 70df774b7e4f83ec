"""soma beside PyTorch, or beside itself, on the same work, alternated: medians of the ratios.

    compare.py SOMA_YARDSTICK [LENGTHS_FOLDER] [--cases REGEX] [--rounds 7] [--threads 2]
    compare.py SOMA_YARDSTICK --epoch BERT_CLASSIFIER MODEL_FOLDER TRAIN.tsv HELD_OUT.tsv [--rounds 7] [--threads 2]

LENGTHS_FOLDER holds lengths_sst2.txt and lengths_amazon_polarity.txt (word pieces of a text, one a line); without it only the
cases of full length are run.

Columns: the ratio (above 1: the first is faster), GFLOP/s of useful work or milliseconds of both, the first one's share of
the fp32 multiply-add rate measured in the same alternation (of the bf16 instruction where products of bf16 use one; fp32 by
tiles may exceed 1), its peak resident memory as a share of the other's, and in GiB. --epoch: a whole epoch of fine-tuning a
pretrained model instead, as the share of PyTorch's time that soma takes.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

# Seconds before a measurement, for the threads of the other program to fall asleep: those of OpenMP go on spinning for a
# while, which took some per cent of two cores from the one measured next.
REST = 0.3
HERE = pathlib.Path(__file__).resolve().parent


class Worker:
    def __init__(self, command):
        self.process = subprocess.Popen([*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def measure(self, steps):
        time.sleep(REST)
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended: {self.process.args}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def linear_layers(dtype, threads):
    """(name, words) of each pass through a layer."""
    for m, k, n in ((1024, 768, 768), (1024, 768, 3072), (1024, 3072, 768), (4096, 384, 1536), (737, 384, 1536)):
        for direction in ("forward", "dx", "dw"):
            for count in sorted({1, threads}):
                yield f"linear/{m}x{k}x{n}/{dtype}/{direction}/{count}", ["linear", m, n, k, dtype, count, direction]


def torch_cases(folder, threads):
    """(name, what the ratio is of, steps a measurement, soma's words, PyTorch's words)."""
    for dtype in ("fp32", "bf16"):
        for name, words in linear_layers(dtype, threads):
            yield name, "gflops", 1, words, words
    for precision, torch_mode in (("fp32", "fp32"), ("bf16_sr", "bf16"), ("bf16", "bf16"), ("bf16_sr", "fp32")):
        yield (f"step/base/8x128 full/{precision} beside {torch_mode}", "gflops", 2,
               ["step", "base", precision, 8, 128, threads, "full"],
               ["step", "base", torch_mode, 8, 128, threads, "full", "max"])
    for tokens in (12, 23):
        words = ["infer", "minilm", tokens, threads]
        yield f"infer/minilm/{tokens} tokens", "seconds", 1, words, words
    words = ["batch_norm", 64, 32, 32, threads]
    yield "batch_norm/64x32x32x32", "seconds", 1, words, words
    for model in ("gpt2", "smollm2"):
        for size, length in ((4, 256), (1, 1024)):
            for precision, mode in (("fp32", "fp32"), ("bf16_sr", "bf16")):
                words = [size, length, threads]
                yield (f"decoder/{model}/{size}x{length}/{precision} beside {mode}", "seconds", 1,
                       ["decoder", model, precision, *words], ["decoder", model, mode, *words])
    if folder is None:
        return
    sst2, reviews = folder / "lengths_sst2.txt", folder / "lengths_amazon_polarity.txt"
    for kind in ("gru", "lstm"):
        words = [kind, 32, 256, threads, sst2]
        yield f"{kind}/sst2 32/256 wide", "seconds", 20, words, words
    for name, model, size, longest, source, paddings, steps in (
            ("base/reviews 8", "base", 8, 128, reviews, ("max", "sorted"), 2),
            ("base/reviews 32", "base", 32, 128, reviews, ("max", "sorted"), 1),
            ("minilm/sst2 32", "minilm", 32, 128, sst2, ("batch", "sorted"), 6),
            ("tiny/sst2 32", "tiny", 32, 128, sst2, ("batch", "sorted"), 40),
            ("minilm/reviews 32 cut at 256", "minilm", 32, 256, reviews, ("max",), 2)):
        for padding in paddings:
            for precision, mode in (("fp32", "fp32"), ("bf16_sr", "bf16")):
                yield (f"step/{name}/{precision} beside {padding}", "gflops", steps,
                       ["step", model, precision, size, longest, threads, source],
                       ["step", model, mode, size, longest, threads, source, padding])


def soma_cases(folder, threads):
    """The same, beside other words of soma's."""
    for (name, ours), (_, theirs) in zip(linear_layers("fp8_e4m3", threads), linear_layers("bf16", threads)):
        yield name.replace("fp8_e4m3", "fp8_e4m3 beside bf16"), "gflops", 1, ours, theirs
    step = ["step", "base", "fp32", 8, 128, threads, "full"]
    yield f"threads/base 8x128/{threads} beside 1", "gflops", 2, step, [*step[:5], 1, "full"]
    yield f"threads/base 8x128/{8 * threads} beside {threads}", "gflops", 2, [*step[:5], 8 * threads, "full"], step
    yield "recompute/base 8x128/recomputed beside kept", "gflops", 2, ["step", "base+recompute", *step[2:]], step
    if folder is not None:
        reviews = ["step", "base", "fp32", 32, 128, threads, folder / "lengths_amazon_polarity.txt"]
        yield ("recompute/base reviews 32/recomputed beside kept", "gflops", 1,
               ["step", "base+recompute", *reviews[2:]], reviews)


def cases(options, folder):
    """(name, what the ratio is of, steps a measurement, command, the command beside it)."""
    soma, torch = [options.yardstick], [sys.executable, HERE / "torch_worker.py"]
    for others, beside in ((torch_cases, torch), (soma_cases, soma)):
        for name, what, steps, ours, theirs in others(folder, options.threads):
            yield name, what, steps, [*soma, *ours], [*beside, *theirs]


def compare(options, case):
    name, what, steps, ours, theirs = case
    one, other = Worker(ours), Worker(theirs)
    pairs = [(one.measure(steps), other.measure(steps)) for _ in range(options.rounds)]
    one.close()
    other.close()
    ratios = [b[what] / a[what] if what == "seconds" else a[what] / b[what] for a, b in pairs]
    row = {"name": name, "ratio": statistics.median(ratios),
           "soma": statistics.median(a[what] for a, _ in pairs), "other": statistics.median(b[what] for _, b in pairs),
           "share": statistics.median(a["gflops"] / a["peak"] for a, _ in pairs),
           "memory": pairs[-1][0]["rss"] / pairs[-1][1]["rss"], "rss": pairs[-1][0]["rss"] / 2**30}
    return row, what


def soma_epoch(options, precision):
    program, model, train, held_out = options.epoch
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log.jsonl"
        subprocess.run([program, "train", f"--pretrained={model}", f"--data={train}", f"--dev={held_out}", "--epochs=1",
                        "--batch-size=32", "--learning-rate=1e-4", "--dropout=0.1", "--max-length=128",
                        f"--precision={precision}", f"--threads={options.threads}", f"--log-json={log}", "--quiet"],
                       check=True, stdout=subprocess.DEVNULL)
        done = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
    return {"seconds": done["train_seconds"], "accuracy": done["accuracy"], "rss": done["peak_rss_bytes"]}


def torch_epoch(options, padding):
    _, model, train, held_out = options.epoch
    return json.loads(subprocess.run([sys.executable, HERE / "torch_worker.py", "epoch", model, train, held_out,
                                      str(options.threads), padding], check=True, capture_output=True).stdout)


def compare_epochs(options):
    """An epoch with each, one after the other, again and again."""
    ways = {"soma fp32": lambda: soma_epoch(options, "fp32"), "PyTorch padded per batch": lambda: torch_epoch(options, "batch"),
            "soma bf16_sr": lambda: soma_epoch(options, "bf16_sr"),
            "PyTorch sorted by length": lambda: torch_epoch(options, "sorted")}
    runs = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, run in ways.items():
            runs[name].append(run())
    print(f"{'epoch':28s} {'seconds':>8s} {'of batch':>9s} {'of sorted':>9s} {'accuracy':>9s} {'GiB':>6s}")
    for name, own in runs.items():
        shares = [statistics.median(a["seconds"] / b["seconds"] for a, b in zip(own, runs[f"PyTorch {other}"]))
                  for other in ("padded per batch", "sorted by length")]
        print(f"{name:28s} {statistics.median(run['seconds'] for run in own):8.1f} {shares[0]:9.2f} {shares[1]:9.2f} "
              f"{statistics.mean(run['accuracy'] for run in own):9.4f} {own[-1]['rss'] / 2**30:6.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("yardstick", type=pathlib.Path)
    parser.add_argument("lengths", type=pathlib.Path, nargs="?")
    parser.add_argument("--cases", default="", help="a regular expression")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epoch", nargs=4, metavar=("BERT_CLASSIFIER", "MODEL", "TRAIN", "HELD_OUT"))
    options = parser.parse_intermixed_args()
    if min(options.rounds, options.threads) < 1:
        parser.error("--rounds and --threads are at least 1")
    if options.epoch:
        compare_epochs(options)
        return
    folder = options.lengths
    if folder is not None and not folder.is_dir():
        parser.error(f"no folder {folder}")
    chosen = [case for case in cases(options, folder) if re.search(options.cases, case[0])]
    if not chosen:
        parser.error(f"no case matches {options.cases}{'' if folder else ' (without LENGTHS_FOLDER there are fewer)'}")
    if folder is None:
        print("no folder of lengths: cases of full length only")
    print(f"{'case':52s} {'ratio':>6s} {'soma':>9s} {'beside':>9s} {'of peak':>8s} {'memory':>7s} {'GiB':>6s}")
    for case in chosen:
        row, what = compare(options, case)
        unit = 1e3 if what == "seconds" else 1
        share = f"{row['share']:8.2f}" if what == "gflops" else " " * 8
        print(f"{row['name']:52s} {row['ratio']:6.2f} {row['soma'] * unit:9.2f} {row['other'] * unit:9.2f} {share} "
              f"{row['memory']:7.2f} {row['rss']:6.2f}", flush=True)


if __name__ == "__main__":
    main()
