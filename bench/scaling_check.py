#!/usr/bin/env python3
"""Steps on several ranks of this machine, measured and predicted (scaling_model.py), side by side.

    python3 bench/scaling_check.py build/release/bin/bert_classifier /tmp/check --preset small
    python3 bench/scaling_check.py PROGRAM WORK_FOLDER --strong --batch 32 --data rows.txt --pretrained base
    python3 bench/scaling_check.py PROGRAM WORK_FOLDER --hosts 2 --rate 1gbit --delay 1ms --ranks 1 2
    python3 bench/scaling_check.py PROGRAM WORK_FOLDER --two-hosts --data rows.txt --pretrained base

--batch is what one rank has: with more ranks each has as much (weak scaling), or all share it (--strong). Every rank
has one thread. One rank's seconds are measured, divided into forward, backward and update by its profile, and put into
the model with what soma_transport_mpi (beside PROGRAM) measures between as many ranks; --cores says what they share. A
step's seconds are the median over all runs but their first steps, for as many tokens as one rank has on average. The
table has them beside the prediction, and the share of the reduction that was hidden behind backward. "ratio" is
measured by predicted.

--hosts puts ranks into network namespaces with a limited link between them (tests/parallel/network.sh, as root).
--two-hosts asks how much of the reduction is hidden with 16 sequences of 128 tokens a rank, two hosts and 1 Gbit/s; of
--data only texts of 128 words or more are read then (--full-length), so that none is shorter.
"""

import argparse
import json
import os
import random
import re
import statistics
import sys
from pathlib import Path

import scaling_model

TESTS = Path(__file__).resolve().parent.parent / "tests" / "parallel"
sys.path.insert(0, str(TESTS))
import launched  # noqa: E402  (beside the tests of ranks)

NO_EVALUATION = 1 << 30


class Check:
    def __init__(self, given):
        self.given = given
        self.work = Path(given.work).absolute()
        self.work.mkdir(parents=True, exist_ok=True)
        self.program = os.path.abspath(given.program)
        self.transport = os.path.join(os.path.dirname(self.program), "soma_transport_mpi")
        self.data = self.rows_of_full_length() if given.full_length else given.data

    def rows_of_full_length(self):
        lines = [line for line in Path(self.given.data).read_text().splitlines(keepends=True)
                 if len(line.split()) > self.given.length]
        path = self.work / f"long-{os.path.basename(self.given.data)}"
        path.write_text("".join(lines))
        print(f"{len(lines)} texts of {self.given.length} words or more")
        return str(path)

    def run(self, words, what):
        result = launched.run(words, timeout=self.given.timeout)
        if result.returncode != 0:
            sys.exit(f"{what}: exit code {result.returncode}\n{result.stderr.decode(errors='replace')[-2000:]}")
        return result.stdout.decode(errors="replace")

    def train(self, ranks, *options, steps):
        """What it printed, and the records of its steps, without the first."""
        given = self.given
        batch = given.batch * (1 if given.strong else ranks)
        log = self.work / "log.jsonl"
        log.unlink(missing_ok=True)
        words = ["train", "--quiet", "--threads=1", f"--batch-size={batch}", f"--max-length={given.length}",
                 f"--max-steps={steps}", f"--epochs={steps}", f"--evaluate-every={NO_EVALUATION}", f"--log-json={log}",
                 f"--precision={given.precision}", *options, *given.option]
        words += [f"--data={self.data}"] if self.data else [f"--reviews={max(100, 2 * batch)}"]
        words += [f"--pretrained={given.pretrained}"] if given.pretrained else [f"--preset={given.preset}"]
        words += [f"--bucket-size={given.bucket_bytes}", *(["--no-overlap"] if given.no_overlap else [])]
        words += ["--shard-optimizer"] if given.zero else []
        launcher = ranks if ranks > 1 else 0  # a rank alone is what others are compared with
        printed = self.run(launched.command(self.program, launcher, words, given.mpirun), f"{ranks} ranks")
        records = [json.loads(line) for line in log.read_text().splitlines()]
        return printed, [record for record in records if "tokens" in record][1:]

    def profile(self):
        """The shares of forward, backward and update in a step of one rank; the model's settings."""
        trace, model = self.work / "trace.json", self.work / "model"
        self.train(1, f"--profile={trace}", f"--output={model}", steps=4)
        slices = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
        backward = [i for i, event in enumerate(slices) if event["name"].endswith(" backward")]
        start, end = slices[0]["ts"], slices[-1]["ts"] + slices[-1]["dur"]
        turn, last = slices[backward[0]]["ts"], slices[backward[-1]]["ts"] + slices[backward[-1]]["dur"]
        shares = [(turn - start) / (end - start), (last - turn) / (end - start), (end - last) / (end - start)]
        return shares, json.loads((model / "config.json").read_text())

    def different_rows(self, tokens, vocabulary):
        """Different word pieces in the batch of one rank, about: those of words and signs in some batches of texts."""
        if not self.data:
            return min(round(tokens), vocabulary)
        texts = [line.lower() for line in Path(self.data).read_text().splitlines()]
        counts = []
        for seed in range(20):
            batch = random.Random(seed).sample(texts, min(self.given.batch, len(texts)))
            counts.append(len({word for text in batch
                               for word in re.findall(r"\w+|[^\w\s]", text)[:self.given.length]}))
        return min(round(statistics.mean(counts)), round(tokens), vocabulary)

    def link(self, ranks):
        path = self.work / f"transport-{ranks}.txt"
        path.write_text(self.run(launched.command(self.transport, ranks, [], self.given.mpirun), "soma_transport_mpi"))
        return scaling_model.read_link(path)

    def measure(self):
        """Of each number of ranks: records of steps, and milliseconds and hidden share of the reduction."""
        steps = {ranks: [] for ranks in self.given.ranks}
        reductions = {ranks: [] for ranks in self.given.ranks}
        for _ in range(self.given.repeat):
            for ranks in self.given.ranks:
                printed, records = self.train(ranks, steps=self.given.steps)
                steps[ranks] += records
                found = re.search(r"reduction +([0-9.]+) ms a step, (-?[0-9]+) % hidden", printed)
                reductions[ranks].append((float(found[1]), float(found[2]) / 100) if found else (0.0, 0.0))
        return steps, {ranks: [statistics.median(column) for column in zip(*values)]
                       for ranks, values in reductions.items()}

    def print(self):
        given = self.given
        shares, config = self.profile()
        steps, reductions = self.measure()
        tokens = statistics.mean(record["tokens"] for record in steps[1])
        seconds = {ranks: statistics.median(record["seconds"] / record["tokens"] for record in records) * tokens
                   * (1 if given.strong else ranks) for ranks, records in steps.items()}
        gradients = scaling_model.bert(
            config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"], config["vocab_size"],
            config["max_position_embeddings"], given.length)
        rows = self.different_rows(tokens, config["vocab_size"])
        step = scaling_model.Step(*(share * seconds[1] for share in shares), gradients, round(tokens), rows)
        where = f"{given.hosts} hosts, {given.rate or 'any rate'}, {given.delay or 'no delay'}" if given.inside else \
            "one machine"
        print(f"{'strong' if given.strong else 'weak'} scaling on {where}, {given.cores} cores; "
              f"{sum(gradient.elements for gradient in gradients)} parameters; a rank alone: {given.batch} sequences, "
              f"{tokens:.0f} tokens, about {rows} different;\nforward {step.forward:.3f} s, backward "
              f"{step.backward:.3f} s, update {step.optimizer:.3f} s")
        print(f"{'':6}{'step':^28}{'efficiency':^20}{'reduction':^20}{'hidden':^20}{'link':>34}\n"
              f"{'ranks':>6}{'measured':>10}{'predicted':>10}{'ratio':>8}" + 2 * f"{'measured':>10}{'predicted':>10}"
              + f"{'measured':>10}{'predicted':>10}{'alpha us':>12}{'large us':>11}{'ns a byte':>11}")
        for ranks in given.ranks:
            link = self.link(ranks) if ranks > 1 else scaling_model.Link(0, 0)
            result = scaling_model.simulate(step, ranks, link, given.bucket_bytes, not given.no_overlap, given.zero,
                                            strong=given.strong, cores=given.cores)
            one = seconds[1] / (ranks if given.strong else 1)
            milliseconds, hidden = reductions[ranks]
            print(f"{ranks:6}{seconds[ranks]:9.3f}s{result.seconds:9.3f}s{seconds[ranks] / result.seconds:8.2f}"
                  f"{one / seconds[ranks]:10.1%}{one / result.seconds:10.1%}"
                  f"{milliseconds:8.1f}ms{1e3 * result.reduction:8.1f}ms{hidden:10.0%}{result.hidden:10.0%}"
                  f"{1e6 * link.alpha:12.1f}{1e6 * (link.large_alpha or 0):11.1f}{1e9 * link.beta:11.3f}", flush=True)


def start_hosts(given):
    """This script again, with hosts around it: their launcher in place of mpirun. Does not return."""
    limits = {key: value for key, value in (("RATE", given.rate), ("DELAY", given.delay)) if value}
    link = os.path.join(os.path.dirname(os.path.abspath(given.program)), "limited_link")
    os.execvpe("bash", ["bash", str(TESTS / "on_hosts.sh"), str(given.hosts), given.work, sys.executable, "-B",
                        *sys.argv, "--inside", "--mpirun", "{}"],
               {**os.environ, "LIMITED_LINK": link, **limits})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("work", help="a folder to work in")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--strong", action="store_true", help="divide the batch; default: weak scaling")
    parser.add_argument("--batch", type=int, default=16, help="sequences of one rank alone")
    parser.add_argument("--length", type=int, default=128, help="tokens that a text is cut to")
    parser.add_argument("--steps", type=int, default=6, help="of a run")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each number of ranks, in turns")
    parser.add_argument("--data", help="rows, a line each, instead of made-up reviews")
    parser.add_argument("--full-length", action="store_true", help="leave shorter texts out")
    parser.add_argument("--pretrained", help="a folder to start from")
    parser.add_argument("--preset", default="tiny", help="or a model from nothing")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--bucket-bytes", type=int, default=4 << 20)
    parser.add_argument("--no-overlap", action="store_true")
    parser.add_argument("--zero", action="store_true", help="with --shard-optimizer")
    parser.add_argument("--option", action="append", default=[], help="of train, as --option=--seed=2")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="that all ranks share")
    parser.add_argument("--hosts", type=int, default=0, help="network namespaces; 0: none")
    parser.add_argument("--rate", help="of the link between them, as 1gbit")
    parser.add_argument("--delay", help="of the link, one way, as 1ms")
    parser.add_argument("--two-hosts", action="store_true", help="16 sequences of 128 tokens a rank, 1 Gbit/s")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for one run")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.two_hosts:
        given.hosts, given.ranks, given.batch, given.length = 2, [1, 2], 16, 128
        given.rate, given.full_length = given.rate or "1gbit", given.data is not None
    if given.full_length and not given.data:
        parser.error("--full-length needs --data")
    if given.ranks[0] != 1:
        given.ranks = [1, *(ranks for ranks in given.ranks if ranks != 1)]
    if given.hosts and given.hosts < max(given.ranks):
        parser.error("fewer hosts than ranks: the link is measured between neighbours, which would share a host")
    if given.hosts and not given.inside:
        start_hosts(given)
    launched.skip_without(os.path.abspath(given.program), given.mpirun)
    Check(given).print()


if __name__ == "__main__":
    main()
