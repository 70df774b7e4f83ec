"""soma beside PyTorch on the same work, alternated: medians of the ratios.

    compare.py SOMA_YARDSTICK LENGTHS_FOLDER [--cases REGEX] [--rounds 7] [--markdown]

LENGTHS_FOLDER holds lengths_sst2.txt and lengths_amazon_polarity.txt (word pieces of a text, one a line); without it only the
cases of full length are run.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


class Worker:
    def __init__(self, command, words):
        self.process = subprocess.Popen([*command, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def measure(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended: {self.process.args}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def cases(folder, threads):
    """(name, what the ratio is of, steps a measurement, soma's words, PyTorch's words)."""
    for m, k, n in ((1024, 768, 768), (1024, 768, 3072), (1024, 3072, 768), (4096, 384, 1536), (737, 384, 1536)):
        for dtype in ("fp32", "bf16"):
            for direction in ("forward", "dx", "dw"):
                for count in (1, threads):
                    words = ["linear", m, n, k, dtype, count, direction]
                    yield f"linear/{m}x{k}x{n}/{dtype}/{direction}/{count}", "gflops", 1, words, words
    for precision, torch_mode in (("fp32", "fp32"), ("bf16_sr", "bf16"), ("bf16", "bf16")):
        yield (f"step/base/8x128 full/{precision}", "gflops", 2, ["step", "base", precision, 8, 128, threads, "full"],
               ["step", "base", torch_mode, 8, 128, threads, "full", "max"])
    yield "infer/minilm/23 tokens", "seconds", 1, ["infer", "minilm", 23, threads], ["infer", "minilm", 23, threads]
    if folder is None:
        return
    sst2, reviews = folder / "lengths_sst2.txt", folder / "lengths_amazon_polarity.txt"
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


def compare(options, case):
    name, what, steps, ours, theirs = case
    soma = Worker([options.yardstick], ours)
    torch = Worker([sys.executable, HERE / "torch_worker.py"], theirs)
    pairs = [(soma.measure(steps), torch.measure(steps)) for _ in range(options.rounds)]
    soma.close()
    torch.close()
    ratios = [b[what] / a[what] if what == "seconds" else a[what] / b[what] for a, b in pairs]
    row = {"name": name, "ratio": statistics.median(ratios),
           "soma": statistics.median(a[what] for a, _ in pairs), "torch": statistics.median(b[what] for _, b in pairs),
           "share": statistics.median(a["gflops"] / a["peak"] for a, _ in pairs),
           "memory": pairs[-1][0]["rss"] / pairs[-1][1]["rss"], "rss": pairs[-1][0]["rss"] / 2**30}
    return row, what


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("yardstick", type=pathlib.Path)
    parser.add_argument("lengths", type=pathlib.Path, nargs="?")
    parser.add_argument("--cases", default="", help="a regular expression")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    folder = options.lengths if options.lengths and options.lengths.is_dir() else None
    if folder is None:
        print("no folder of lengths: cases of full length only")
    print(f"{'case':52s} {'ratio':>6s} {'soma':>9s} {'PyTorch':>9s} {'of peak':>8s} {'memory':>7s} {'GiB':>6s}")
    for case in cases(folder, options.threads):
        if not re.search(options.cases, case[0]):
            continue
        row, what = compare(options, case)
        unit = 1e3 if what == "seconds" else 1
        share = f"{row['share']:8.2f}" if what == "gflops" else " " * 8
        print(f"{row['name']:52s} {row['ratio']:6.2f} {row['soma'] * unit:9.2f} {row['torch'] * unit:9.2f} {share} "
              f"{row['memory']:7.2f} {row['rss']:6.2f}", flush=True)


if __name__ == "__main__":
    main()
