#!/usr/bin/env python3
"""How long a training step of BERT-base would take on more ranks: a simulation, with measured numbers put in.

    python3 bench/scaling_model.py --forward 0.5 --backward 1.0 --optimizer 0.1 --transport measured.txt
    python3 bench/scaling_model.py --forward 0.5 --backward 1.0 --optimizer 0.1 --alpha 2e-6 --beta 1e-10 --add 5e-11

--forward, --backward and --optimizer are the seconds of one rank alone. --transport reads the line of JSON that
soma_transport or soma_transport_mpi (bench/yardstick/transport.hpp) printed. Two questions can be asked of more ranks:

  weak scaling    every rank has as much work as the one had, so the batch grows; efficiency is the one's seconds over
                  those of a step
  strong scaling  the batch of the one is divided; efficiency is the one's seconds over ranks times those of a step.
                  The update of the weights is not divided, unless by ZeRO

What is simulated is what the library does. Gradients become ready one by one while backward runs and fill buckets.
A full one is summed by recursive halving and doubling (soma::ReduceScatter and AllGather): log2(ranks) messages there,
each half of what is left, and as many back. A message costs alpha, and its bytes beta each on the rank's link, one
message after the other; adding costs add for each byte. A rank looks after its messages only when it has made the next
gradient, and waits for them, bucket by bucket, when backward is over. Then come the embeddings, which are sparse:
numbers of rows, lists of rows, values on all rows that any rank has; then three small sums (loss, hits, stop). With
ZeRO a rank ends with the sums of its own rows, one small sum makes the norm, it updates its part, and weights are
gathered parameter by parameter, 16 at a time.

With --cores all ranks share one machine of so many cores, one thread each: computing takes ranks / cores as long, where
that is above 1. Left out: what computing and sending take from each other otherwise, links that ranks share, and ranks
that are slower than others. So it is a bound from below for the step, from above for the efficiency.
"""

import argparse
import bisect
import dataclasses
import heapq
import json
import math
import pathlib

FLOAT = 4          # gradients travel as fp32, weights as they are
NUMBER = 8         # of a row
FEW_BYTES = 65536  # soma::few_floats: up to here a sum takes the way with fewer messages
LARGE = 1 << 17    # messages for which `large_alpha` was measured
AT_ONCE = 16       # parameters that are gathered together
SMALL_SUMS = 3


@dataclasses.dataclass(frozen=True)
class Gradient:
    name: str
    elements: int       # of the whole parameter
    share: float = 0.0  # of the seconds of backward
    width: int = 0      # above 0: sparse, rows of so many elements
    rows: int = 0       # of a sparse one that every rank has; 0: those of the words of a batch


@dataclasses.dataclass(frozen=True)
class Link:
    alpha: float      # seconds a message
    beta: float       # seconds a byte
    add: float = 0.0  # seconds to add a byte that has arrived
    large_alpha: float = None  # of messages that are agreed upon before they are sent

    def message(self, size, added=True):
        """What it delays, and for how long the link is its own."""
        alpha = self.large_alpha if self.large_alpha is not None and size >= LARGE else self.alpha
        return alpha + (size * self.add if added else 0), size * self.beta


@dataclasses.dataclass(frozen=True)
class Step:
    forward: float
    backward: float
    optimizer: float
    gradients: tuple    # in the order of backward
    tokens: int = 4096  # of the batch of one rank alone
    rows: int = 4096    # different ones among them


@dataclasses.dataclass(frozen=True)
class Result:
    seconds: float
    sending: float    # the seconds of all messages
    exposed: float    # the part of the step in which a rank did nothing but communicate
    reduction: float  # in which gradients were on their way
    hidden: float     # the share of that which was behind backward


def bert(layers=12, width=768, inner=3072, vocabulary=30522, positions=512, length=128, labels=2):
    """A classifier, BERT-base unless told otherwise. Matrices share backward's time by their size; head and embeddings
    take next to none."""
    matrices = [("output", width * inner, width), ("intermediate", width * inner, inner), None,
                *((name, width * width, width) for name in ("attention.output", "value", "key", "query"))]
    total = layers * sum(entry[1] for entry in matrices if entry)
    gradients = [Gradient("classifier.weight", labels * width), Gradient("classifier.bias", labels),
                 Gradient("pooler.weight", width * width), Gradient("pooler.bias", width)]
    norm = [Gradient("norm.weight", width), Gradient("norm.bias", width)]
    for _ in range(layers):
        gradients += norm
        for entry in matrices:
            if entry is None:
                gradients += norm
                continue
            name, elements, biases = entry
            gradients += [Gradient(f"{name}.weight", elements, elements / total), Gradient(f"{name}.bias", biases)]
    return (*gradients, *norm,
            Gradient("positions", positions * width, width=width, rows=min(length, positions)),
            Gradient("types", 2 * width, width=width, rows=1),
            Gradient("words", vocabulary * width, width=width))


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


def halving(size, ranks, link):
    """The messages of a reduce-scatter: half of what is left, at distances 1, 2, 4, ..."""
    return [link.message(size / 2**i) for i in range(1, int(math.log2(ranks)) + 1)]


def gathering(size, ranks, link):
    """The way back, in which nothing is added."""
    return [link.message(size / 2**i, added=False) for i in range(int(math.log2(ranks)), 0, -1)]


def doubling(size, ranks, link):
    return [link.message(size)] * int(math.log2(ranks))


def all_reduce(size, ranks, link):
    if size <= FEW_BYTES:
        return doubling(size, ranks, link)
    return halving(size, ranks, link) + gathering(size, ranks, link)


class Wire:
    """The link of one rank: a message has it for itself, those that are only delayed are no hindrance."""

    def __init__(self):
        self.free = self.sending = 0.0

    def send(self, start, message):
        delayed, occupied = message
        self.free = max(self.free, start) + occupied
        self.sending += delayed + occupied
        return self.free + delayed  # when it has arrived

    def finish(self, now, under_way):
        """Waits for lists of messages, one list after the other: pairs of when the last that was sent arrives, and
        what is left to send."""
        for arrives, left in under_way:
            now = max(now, arrives)
            for message in left:
                now = self.send(now, message)
        return now


def advance(wire, buckets, looks, end):
    """Sends what can be sent before `end`. `buckets`: when each is ready, and its messages; `looks`: when the rank
    looks after them. Returns what Wire.finish wants, and for how long any bucket was under way."""
    under_way = [(end, messages) for _, messages in buckets]
    noticed = [end if messages else ready for ready, messages in buckets]
    starts = [(ready, i, 0) for i, (ready, messages) in enumerate(buckets) if ready < end and messages]
    heapq.heapify(starts)
    while starts:
        start, i, count = heapq.heappop(starts)
        messages = buckets[i][1]
        arrives = wire.send(start, messages[count])
        under_way[i] = (arrives, messages[count + 1:])
        look = bisect.bisect_left(looks, arrives)
        next_start = looks[look] if look < len(looks) else end
        if count + 1 == len(messages):
            noticed[i] = next_start
        elif next_start < end:
            heapq.heappush(starts, (next_start, i, count + 1))
    covered, last = 0.0, 0.0
    for (ready, _), until in zip(buckets, noticed):  # in the order in which they are ready
        covered += max(0.0, until - max(ready, last))
        last = max(last, until)
    return under_way, covered


def sparse_sums(step, gradient, ranks, link, strong):
    """Numbers of rows, lists of rows, values: each a list of messages."""
    own = union = gradient.rows
    if own == 0:
        own = min(step.rows, step.tokens / ranks) if strong else step.rows
        union = min(gradient.elements // gradient.width, step.rows * (1 if strong else ranks))
    return [doubling(NUMBER * ranks, ranks, link), doubling(NUMBER * ranks * own, ranks, link),
            all_reduce(FLOAT * gradient.width * union, ranks, link)]


def simulate(step, ranks, link, bucket_bytes=4 << 20, overlap=True, zero=False, strong=False, cores=None):
    """One step on each of `ranks` ranks, a power of two."""
    if ranks < 1 or ranks & (ranks - 1):
        raise ValueError(f"{ranks} ranks: not a power of two")
    slower = max(1.0, ranks / cores) if cores else 1.0
    part = slower / ranks if strong else slower
    end = (step.forward + step.backward) * part
    optimizer = step.optimizer * slower / (ranks if zero else 1)
    looks, now = [], step.forward * part
    dense = [gradient for gradient in step.gradients if not gradient.width]
    for gradient in dense:
        now += gradient.share * step.backward * part
        looks.append(min(now, end))

    sizes = [FLOAT * gradient.elements for gradient in dense]
    buckets = []
    for indices in buckets_of(sizes, bucket_bytes):
        size = sum(sizes[i] for i in indices)
        messages = halving(size, ranks, link) + ([] if zero else gathering(size, ranks, link))
        buckets.append((looks[indices[-1]] if overlap and size >= bucket_bytes else end, messages))
    wire = Wire()
    under_way, covered = advance(wire, buckets, looks, end)
    for gradient in step.gradients:
        if gradient.width:
            under_way += [(end, messages) for messages in sparse_sums(step, gradient, ranks, link, strong)]
    summed = wire.finish(end, under_way)
    total = covered + summed - end
    small = [(summed, doubling(NUMBER, ranks, link))] * (SMALL_SUMS + int(zero))
    now = wire.finish(summed, small) + optimizer
    if zero and ranks > 1:
        whole = [FLOAT * gradient.elements for gradient in step.gradients]
        for begin in range(0, len(whole), AT_ONCE):
            group = [gathering(size, ranks, link) for size in whole[begin:begin + AT_ONCE]]
            now = wire.finish(now, [(wire.send(now, messages[0]), messages[1:]) for messages in group])
    return Result(now, wire.sending, now - end - optimizer, total, covered / total if total > 0 else 0.0)


def read_link(path):
    """The last line of JSON in what soma_transport or soma_transport_mpi printed."""
    lines = [line for line in pathlib.Path(path).read_text().splitlines() if line.startswith("{")]
    if not lines:
        raise ValueError(f"{path}: no line of JSON, as soma_transport prints it")
    record = json.loads(lines[-1])
    return Link(record["alpha_seconds"], record["beta_seconds_per_byte"], record["add_seconds_per_byte"],
                record.get("large_alpha_seconds"))


def print_table(step, link, options):
    alone = step.forward + step.backward + step.optimizer

    def run(ranks, **how):
        result = simulate(step, ranks, link, int(options.bucket_mib * 2**20), strong=options.strong,
                          cores=options.cores, **how)
        return result, alone / result.seconds / (ranks if options.strong else 1)

    print(f"{'strong' if options.strong else 'weak'} scaling of {alone:.3f} s alone, BERT-base, {step.tokens} tokens, "
          f"{step.rows} different{f', on {options.cores} cores' if options.cores else ''}; predicted, not measured")
    print(f"{'ranks':>6} {'step s':>9} {'efficiency':>11} {'hidden':>8} {'sending s':>10} {'exposed s':>10} "
          f"{'not overlapped':>18} {'ZeRO':>18}")
    for ranks in options.ranks:
        result, efficiency = run(ranks)
        late, late_efficiency = run(ranks, overlap=False)
        zero, zero_efficiency = run(ranks, zero=True)
        print(f"{ranks:6} {result.seconds:9.4f} {efficiency:11.1%} {result.hidden:8.1%} {result.sending:10.4f} "
              f"{result.exposed:10.4f} {late.seconds:9.4f} {late_efficiency:8.1%} {zero.seconds:9.4f} "
              f"{zero_efficiency:8.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forward", type=float, required=True, help="seconds of forward on one rank")
    parser.add_argument("--backward", type=float, required=True, help="of backward")
    parser.add_argument("--optimizer", type=float, default=0.0, help="of the update of all weights")
    parser.add_argument("--transport", help="a file with what soma_transport printed")
    parser.add_argument("--alpha", type=float, help="or: seconds a message")
    parser.add_argument("--beta", type=float, help="seconds a byte")
    parser.add_argument("--add", type=float, default=0.0, help="seconds to add a byte that has arrived")
    parser.add_argument("--strong", action="store_true", help="divide the batch; default: weak scaling")
    parser.add_argument("--cores", type=int, help="that all ranks share; default: each has its own")
    parser.add_argument("--tokens", type=int, default=4096, help="of the batch of one rank alone")
    parser.add_argument("--rows", type=int, help="different word pieces among them; default: as many as there can be")
    parser.add_argument("--bucket-mib", type=float, default=4.0, help="a bucket is sent when it has so many MiB")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2**i for i in range(1, 11)])
    options = parser.parse_args()
    if not options.transport and (options.alpha is None or options.beta is None):
        parser.error("--transport, or --alpha and --beta")
    link = read_link(options.transport) if options.transport else Link(options.alpha, options.beta, options.add)
    model = bert()
    rows = options.rows or min(options.tokens, model[-1].elements // model[-1].width)
    print_table(Step(options.forward, options.backward, options.optimizer, model, options.tokens, rows), link, options)


if __name__ == "__main__":
    main()
