#!/usr/bin/env python3
"""bench/scaling_model.py in cases that have a closed form. Usage: scaling_model.py [--root CHECKOUT]"""

import argparse
import importlib.util
import math
import pathlib
import sys
import tempfile
import unittest

parser = argparse.ArgumentParser()
parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
spec = importlib.util.spec_from_file_location("scaling_model", parser.parse_args().root / "bench/scaling_model.py")
model = importlib.util.module_from_spec(spec)
sys.modules["scaling_model"] = model  # dataclasses look there
spec.loader.exec_module(model)

LINK = model.Link(alpha=2e-5, beta=3e-10, add=1e-10)
FREE_ADD = model.Link(alpha=2e-5, beta=3e-10)
FREE = model.Link(alpha=0, beta=0)
TWO_ALPHAS = model.Link(alpha=2e-5, beta=3e-10, add=1e-10, large_alpha=7e-5)
BERT = model.bert()
STEP = model.Step(forward=0.5, backward=1.0, optimizer=0.25, gradients=BERT, tokens=2000, rows=1000)
SIZES = [4 * gradient.elements for gradient in BERT if not gradient.width]
POWERS = [2**i for i in range(11)]


def equal_parts(count, elements=1 << 20):
    """So many dense gradients, at equal distances."""
    gradients = tuple(model.Gradient(str(i), elements, 1 / count) for i in range(count))
    return model.Step(forward=0.5, backward=1.0, optimizer=0.25, gradients=gradients)


def doubled(size, ranks, link):
    return math.log2(ranks) * (link.alpha + size * (link.beta + link.add))


def all_reduce(size, ranks, link):
    share = (ranks - 1) / ranks * size
    return 2 * math.log2(ranks) * link.alpha + 2 * share * link.beta + share * link.add


def small_sums(ranks, link, count=3):
    return count * doubled(8, ranks, link)


def sparse(own, union, ranks, link):
    """Of words, with types (1 row) and positions (128) of 768 numbers."""
    seconds = 3 * doubled(8 * ranks, ranks, link)
    seconds += sum(doubled(8 * rows * ranks, ranks, link) for rows in (1, 128, own))
    return seconds + doubled(4 * 768, ranks, link) + sum(all_reduce(4 * 768 * rows, ranks, link)
                                                         for rows in (128, union))


class ClosedForms(unittest.TestCase):
    def near(self, a, b):
        self.assertTrue(math.isclose(a, b, rel_tol=1e-9), f"{a} is not {b}")

    def test_parameters_of_bert_base(self):
        # The published model has 109 482 240 with its pooler; a head for two classes adds 1538.
        self.assertEqual(sum(gradient.elements for gradient in BERT), 109482240 + 1538)
        self.assertEqual(len(BERT), 5 + 12 * 16 + 4)
        self.near(sum(gradient.share for gradient in BERT), 1)

    def test_buckets(self):
        self.assertEqual(model.buckets_of([1, 1, 2, 16, 8, 4], 16), [[0, 1, 2, 3], [4, 5]])
        self.assertEqual(model.buckets_of([1, 1, 2], 1), [[0], [1], [2]])
        self.assertEqual(model.buckets_of([], 16), [])

    def test_one_rank_sends_nothing(self):
        for how in ({}, {"overlap": False}, {"zero": True}, {"strong": True}, {"cores": 1}):
            result = model.simulate(STEP, 1, LINK, **how)
            self.assertEqual((result.sending, result.exposed, result.hidden), (0, 0, 0))
            self.near(result.seconds, 1.75)

    def test_without_overlap(self):
        for link in (LINK, FREE_ADD):
            for ranks in POWERS:
                for limit in (1, 4 << 20, 1e12):
                    sizes = [sum(SIZES[i] for i in bucket) for bucket in model.buckets_of(SIZES, limit)]
                    wanted = 1.75 + sum(all_reduce(size, ranks, link) for size in sizes) + small_sums(ranks, link)
                    # Every rank has 1000 words, all together no more than there are.
                    wanted += sparse(1000, min(30522, 1000 * ranks), ranks, link)
                    result = model.simulate(STEP, ranks, link, limit, overlap=False)
                    self.near(result.seconds, wanted)
                    self.assertEqual(result.hidden, 0)

    def test_a_divided_batch(self):
        # The union of rows stays what it was; a rank has no more rows than tokens.
        for ranks in POWERS:
            sizes = [sum(SIZES[i] for i in bucket) for bucket in model.buckets_of(SIZES, 4 << 20)]
            wanted = 1.5 / ranks + 0.25 + sum(all_reduce(size, ranks, LINK) for size in sizes)
            wanted += sparse(min(1000, 2000 / ranks), 1000, ranks, LINK) + small_sums(ranks, LINK)
            self.near(model.simulate(STEP, ranks, LINK, overlap=False, strong=True).seconds, wanted)

    def test_shared_cores(self):
        for ranks in POWERS:
            slower = max(1, ranks / 4)
            self.near(model.simulate(STEP, ranks, FREE, cores=4).seconds, 1.75 * slower)
            self.near(model.simulate(STEP, ranks, FREE, cores=4, strong=True).seconds,
                      (1.5 / ranks + 0.25) * slower)

    def test_messages_move_on_with_the_next_gradient(self):
        # Every message is over before the next gradient is there. So the last bucket has sent none when backward
        # ends, the one before has sent one, and so on.
        step = equal_parts(64)
        fast = model.Link(alpha=1e-5, beta=1e-11)
        size = 4 << 20
        for ranks in POWERS[1:]:
            rounds = int(math.log2(ranks))
            there = [fast.alpha + size / 2**i * fast.beta for i in range(1, rounds + 1)]
            messages = there + there[::-1]
            exposed = sum(sum(messages[sent:]) for sent in range(len(messages)))
            result = model.simulate(step, ranks, fast, 1)
            self.near(result.seconds, 1.75 + exposed + small_sums(ranks, fast))
            # The first bucket leaves with the first gradient.
            self.near(result.hidden, 1 - exposed / (63 / 64 + exposed))

    def test_bound_by_the_link(self):
        # It is never idle once the first bucket is there.
        step = equal_parts(16)
        slow = model.Link(alpha=0, beta=2.5e-6 / 4)
        result = model.simulate(step, 2, slow, 1)
        self.near(result.seconds, 0.5 + 1 / 16 + 16 * all_reduce(4 << 20, 2, slow) + 0.25 + small_sums(2, slow))

    def test_large_messages(self):
        for ranks, large in ((2, 1), (64, 5), (1024, 5)):  # halves of 4 MiB: five have 128 KiB or more
            messages = model.all_reduce(4 << 20, ranks, TWO_ALPHAS)
            delays = [delay for delay, _ in messages[len(messages) // 2:]]
            self.assertEqual(sum(delay == 7e-5 for delay in delays), large)

    def test_zero_updates_and_gathers_a_part(self):
        sizes = [sum(SIZES[i] for i in bucket) for bucket in model.buckets_of(SIZES, 4 << 20)]
        there = sum(LINK.alpha + size / 2 * (LINK.beta + LINK.add) for size in sizes)
        back = math.ceil(len(BERT) / 16) * LINK.alpha + 4 * (109482240 + 1538) / 2 * LINK.beta
        wanted = 1.5 + there + sparse(1000, 2000, 2, LINK) + small_sums(2, LINK, 4) + 0.25 / 2 + back
        self.near(model.simulate(STEP, 2, LINK, overlap=False, zero=True).seconds, wanted)

    def test_zero_gathers_the_first_messages_at_once(self):
        # Four ranks, 16 parameters: their first messages (a quarter each) together, the second ones in turn.
        step = equal_parts(16)
        link = model.Link(alpha=1, beta=1e-10)
        size = 4 << 20
        back = 1 + size / 4 * link.beta + 16 * (1 + size / 2 * link.beta)
        there = 16 * (2 + 0.75 * size * link.beta)
        wanted = 1.5 + there + small_sums(4, link, 4) + 0.25 / 4 + back
        self.near(model.simulate(step, 4, link, 1, overlap=False, zero=True).seconds, wanted)

    def test_reads_what_soma_transport_prints(self):
        line = ('{"transport": "mpi", "ranks": 2, "alpha_seconds": 1e-6, "large_alpha_seconds": 3e-6, '
                '"beta_seconds_per_byte": 2e-10, "add_seconds_per_byte": 4e-11}')
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "printed"
            path.write_text(f"mpi, 2 ranks\n     bytes  exchange us\n{line}\n")
            self.assertEqual(model.read_link(path), model.Link(1e-6, 2e-10, 4e-11, 3e-6))
            path.write_text("mpi, 2 ranks\n")
            self.assertRaises(ValueError, model.read_link, path)

    def test_only_powers_of_two(self):
        for ranks in (0, 3, -2):
            self.assertRaises(ValueError, model.simulate, STEP, ranks, LINK)


if __name__ == "__main__":
    unittest.main(argv=["scaling_model"])
