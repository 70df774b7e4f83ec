#!/usr/bin/env python3
"""How long a training step would take on more ranks: a simulation, with measured numbers put in.

    python3 bench/scaling_model.py --forward 0.5 --backward 1.0 --optimizer 0.1 \\
        --alpha 2e-6 --beta 1e-10 --add 5e-11 [--bucket-mb 25] [--no-overlap] [--zero] [--ranks 2 4 8]

Every rank computes the same: forward, backward, optimizer are its seconds. Gradients become ready layer by layer while
backward runs, are collected into buckets in that order, and each bucket is summed by recursive halving and doubling
(soma::ReduceScatter and AllGather): log2(ranks) rounds there and as many back, each alpha + bytes * beta seconds, on the
way there with bytes * add for the addition. A rank does one round at a time, bucket after bucket. alpha, beta and add
are what bench/yardstick/transport.cpp prints for the ranks of one machine; for a network put in its own.

Left out: what computing and sending take from each other (memory bandwidth, cores), links that ranks share, and ranks
that are slower than others. So it is a bound from below for the step, from above for the efficiency.
"""

import argparse
import dataclasses

FLOAT = 4  # gradients travel as fp32


@dataclasses.dataclass(frozen=True)
class Layer:
    name: str
    parameters: int
    share: float  # of the seconds of backward


@dataclasses.dataclass(frozen=True)
class Link:
    alpha: float      # seconds a message
    beta: float       # seconds a byte
    add: float = 0.0  # seconds to add a byte that has arrived


@dataclasses.dataclass(frozen=True)
class Step:
    forward: float
    backward: float
    optimizer: float
    layers: tuple  # in the order of backward


@dataclasses.dataclass(frozen=True)
class Result:
    seconds: float
    communication: float  # how long the link was in use
    exposed: float        # the part of the step in which a rank did nothing but communicate


def bert_base(layers=12, width=768, inner=3072, vocabulary=30522, positions=512, labels=2):
    """A classifier, last layer first. Embeddings and head take next to none of backward's time."""
    attention = 4 * (width * width + width)
    mlp = width * inner + inner + inner * width + width
    norms = 2 * 2 * width
    encoder = [Layer(f"layer {i}", attention + mlp + norms, 1 / layers) for i in reversed(range(layers))]
    head = Layer("head", width * width + width + labels * width + labels, 0.0)
    embeddings = Layer("embeddings", (vocabulary + positions + 2) * width + 2 * width, 0.0)
    return (head, *encoder, embeddings)


def buckets_of(sizes, limit):
    """Lists of neighbours in `sizes`; a list ends with the element that brings it to the limit or above."""
    buckets, current, total = [], [], 0
    for index, size in enumerate(sizes):
        current.append(index)
        total += size
        if total >= limit:
            buckets.append(current)
            current, total = [], 0
    return buckets + ([current] if current else [])


def reduce_scatter_rounds(size, ranks, link):
    """Seconds of each round: half of what is left, at distances 1, 2, 4, ..."""
    rounds, distance = [], 1
    while distance < ranks:
        size /= 2
        rounds.append(link.alpha + size * (link.beta + link.add))
        distance *= 2
    return rounds


def all_gather_rounds(size, ranks, link):
    """The way back, in which nothing is added."""
    return list(reversed(reduce_scatter_rounds(size, ranks, Link(link.alpha, link.beta))))


class Timeline:
    """The link of one rank: rounds one after the other, none before its bucket is ready."""

    def __init__(self):
        self.free = 0.0  # when the last round is over
        self.busy = 0.0

    def send(self, ready, rounds):
        self.free = max(self.free, ready)
        for seconds in rounds:
            self.free += seconds
            self.busy += seconds


def simulate(step, ranks, link, bucket_bytes, overlap=True, zero=False):
    """One step on each of `ranks` ranks, a power of two.

    With `zero` (ZeRO stage 1) a rank updates only the part that it has the sum of, and the updated weights are gathered
    instead of the gradients. The update waits for all gradients, as it needs their norm.
    """
    if ranks < 1 or ranks & (ranks - 1):
        raise ValueError(f"{ranks} ranks: not a power of two")
    end_of_backward = step.forward + step.backward
    ready, now = [], step.forward
    for layer in step.layers:
        now += layer.share * step.backward
        ready.append(now)
    sizes = [layer.parameters * FLOAT for layer in step.layers]
    buckets = buckets_of(sizes, bucket_bytes)

    timeline = Timeline()
    for bucket in buckets:
        size = sum(sizes[i] for i in bucket)
        rounds = reduce_scatter_rounds(size, ranks, link)
        if not zero:
            rounds += all_gather_rounds(size, ranks, link)
        timeline.send(ready[bucket[-1]] if overlap else end_of_backward, rounds)
    updated = max(end_of_backward, timeline.free) + step.optimizer / (ranks if zero else 1)
    if zero:
        for bucket in buckets:
            timeline.send(updated, all_gather_rounds(sum(sizes[i] for i in bucket), ranks, link))
    seconds = max(updated, timeline.free)
    computing = end_of_backward + step.optimizer / (ranks if zero else 1)
    return Result(seconds, timeline.busy, seconds - computing)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, text in (("forward", "seconds of forward on one rank"), ("backward", "of backward"),
                       ("alpha", "seconds a message"), ("beta", "seconds a byte")):
        parser.add_argument(f"--{name}", type=float, required=True, help=text)
    parser.add_argument("--optimizer", type=float, default=0.0, help="seconds of the update of all weights")
    parser.add_argument("--add", type=float, default=0.0, help="seconds to add a byte that has arrived")
    parser.add_argument("--bucket-mb", type=float, default=25.0, help="a bucket is sent when it has so many MB")
    parser.add_argument("--no-overlap", action="store_true", help="send nothing before backward has ended")
    parser.add_argument("--zero", action="store_true", help="a rank updates only its part of the weights")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2**i for i in range(11)])
    options = parser.parse_args()
    step = Step(options.forward, options.backward, options.optimizer, bert_base())
    link = Link(options.alpha, options.beta, options.add)
    alone = step.forward + step.backward + step.optimizer
    print(f"BERT-base, {sum(layer.parameters for layer in step.layers)} parameters, {alone:.3f} s a step alone; "
          f"{'overlapped' if not options.no_overlap else 'after backward'}{', ZeRO' if options.zero else ''}")
    print(f"{'ranks':>6} {'step s':>9} {'sending s':>10} {'exposed s':>10} {'efficiency':>11}")
    for ranks in options.ranks:
        result = simulate(step, ranks, link, options.bucket_mb * 1e6, not options.no_overlap, options.zero)
        print(f"{ranks:6} {result.seconds:9.4f} {result.communication:10.4f} {result.exposed:10.4f} "
              f"{alone / result.seconds:10.1%}")


if __name__ == "__main__":
    main()
