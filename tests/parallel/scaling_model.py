#!/usr/bin/env python3
"""bench/scaling_model.py in cases that have a closed form. Usage: scaling_model.py [--root CHECKOUT]"""

import argparse
import importlib.util
import math
import pathlib
import unittest

parser = argparse.ArgumentParser()
parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
spec = importlib.util.spec_from_file_location("scaling_model", parser.parse_args().root / "bench/scaling_model.py")
model = importlib.util.module_from_spec(spec)
spec.loader.exec_module(model)

LINK = model.Link(alpha=2e-5, beta=3e-10, add=1e-10)
FREE_ADD = model.Link(alpha=2e-5, beta=3e-10)
STEP = model.Step(forward=0.5, backward=1.0, optimizer=0.25, layers=model.bert_base())
SIZES = [4 * layer.parameters for layer in STEP.layers]
POWERS = [2**i for i in range(11)]


def all_reduce(size, ranks, link):
    share = (ranks - 1) / ranks * size
    return 2 * math.log2(ranks) * link.alpha + 2 * share * link.beta + share * link.add


class ClosedForms(unittest.TestCase):
    def near(self, a, b):
        self.assertTrue(math.isclose(a, b, rel_tol=1e-12), f"{a} is not {b}")

    def test_parameters_of_bert_base(self):
        # The published model has 109 482 240 with its pooler; a head for two classes adds 1538.
        self.assertEqual(sum(layer.parameters for layer in STEP.layers), 109482240 + 1538)
        self.near(sum(layer.share for layer in STEP.layers), 1)

    def test_buckets(self):
        self.assertEqual(model.buckets_of([1, 1, 2, 16, 8, 4], 16), [[0, 1, 2, 3], [4, 5]])
        self.assertEqual(model.buckets_of([1, 1, 2], 1), [[0], [1], [2]])
        self.assertEqual(model.buckets_of([], 16), [])

    def test_one_rank_sends_nothing(self):
        for overlap in (False, True):
            for zero in (False, True):
                result = model.simulate(STEP, 1, LINK, 25e6, overlap, zero)
                self.assertEqual((result.communication, result.exposed), (0, 0))
                self.near(result.seconds, 1.75)

    def test_without_overlap(self):
        for link in (LINK, FREE_ADD):
            for ranks in POWERS:
                for limit in (1, 25e6, 1e12):
                    sizes = [sum(SIZES[i] for i in bucket) for bucket in model.buckets_of(SIZES, limit)]
                    wanted = 1.75 + sum(all_reduce(size, ranks, link) for size in sizes)
                    self.near(model.simulate(STEP, ranks, link, limit, overlap=False).seconds, wanted)

    def test_hidden_but_for_the_last_bucket(self):
        # Each layer's sum is over before the next layer's gradient is there; embeddings come with the first layer.
        fast = model.Link(alpha=1e-6, beta=1e-11)
        for ranks in POWERS:
            wanted = sum(all_reduce(size, ranks, fast) for size in SIZES[-2:])
            self.near(model.simulate(STEP, ranks, fast, 1).seconds, 1.75 + wanted)

    def test_bound_by_the_link(self):
        # It is never idle once the first layer's gradient is there. The head's came before, and was over by then.
        slow = model.Link(alpha=1e-3, beta=1e-8)
        for ranks in POWERS[1:]:
            wanted = 0.5 + 1 / 12 + sum(all_reduce(size, ranks, slow) for size in SIZES[1:]) + 0.25
            self.near(model.simulate(STEP, ranks, slow, 1).seconds, wanted)

    def test_zero_sends_as_much_and_updates_a_part(self):
        for ranks in POWERS[1:]:
            plain = model.simulate(STEP, ranks, LINK, 25e6, overlap=False)
            zero = model.simulate(STEP, ranks, LINK, 25e6, overlap=False, zero=True)
            self.near(zero.seconds, plain.seconds - 0.25 + 0.25 / ranks)
            self.near(zero.communication, plain.communication)

    def test_only_powers_of_two(self):
        for ranks in (0, 3, -2):
            self.assertRaises(ValueError, model.simulate, STEP, ranks, LINK, 25e6)


if __name__ == "__main__":
    unittest.main(argv=["scaling_model"])
