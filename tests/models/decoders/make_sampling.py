#!/usr/bin/env python3
"""Kept tokens and their probabilities by the logits processors of transformers: sampling.json.

Usage: make_sampling.py FOLDER
Made with transformers 5.24 and PyTorch 2.15.
"""

import itertools
import json
import pathlib
import sys

import torch
from transformers import (LogitsProcessorList, MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper,
                          TopKLogitsWarper, TopPLogitsWarper)

# 40 scores, some below 0; 7 equal ones around the 10th place, 3 best ones nearly equal, 2 equal best ones of a second row.
TIED = [1.5, -0.25, 3.0, 2.75, 0.5, 1.5, 1.5, -3.0, 2.0, 2.0, 0.125, -1.0, 1.5, 2.5, -2.0, 1.5, 0.0, 1.0, 1.5, 0.75,
        -0.5, 2.25, 1.25, 1.5, -4.0, 0.25, 2.9375, -6.0, 1.125, -1.5, 0.625, 0.375, -0.75, 1.75, 1.0, -0.125, 0.5, -8.0, 0.5, 1.0]
PAIRED = [(score + 7 * i) % 5 - 2.5 if i % 13 else 4.0 for i, score in enumerate(TIED)]
SEEN = [2, 11, 2, 14, 26, 39, 7]


def kept(scores, penalty, temperature, top_k, top_p, min_p):
    steps = LogitsProcessorList()
    if penalty != 1:
        steps.append(RepetitionPenaltyLogitsProcessor(penalty))
    if temperature != 1:
        steps.append(TemperatureLogitsWarper(temperature))
    if top_k:
        steps.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        steps.append(TopPLogitsWarper(top_p))
    if min_p:
        steps.append(MinPLogitsWarper(min_p))
    row = steps(torch.tensor([SEEN]), torch.tensor([scores]))[0]
    ids = torch.nonzero(torch.isfinite(row)).flatten()
    probabilities = torch.softmax(row[ids].double(), dim=-1)
    return ids.tolist(), probabilities.tolist()


def main():
    cases = []
    for row, (name, scores) in enumerate((("tied", TIED), ("paired", PAIRED))):
        for penalty, temperature, top_k, top_p, min_p in itertools.chain(
                itertools.product((1, 1.3), (1.0, 0.7), (0, 1, 5, 10, 50), (1.0,), (0.0,)),
                itertools.product((1, 0.8), (1.0, 1.7), (0, 12), (0.0, 0.1, 0.35, 0.9, 0.999), (0.0,)),
                itertools.product((1, 1.3), (0.7,), (0, 30), (0.97, 1.0), (0.05, 0.3, 1.0))):
            ids, probabilities = kept(scores, penalty, temperature, top_k, top_p, min_p)
            cases.append({"row": row, "repetition_penalty": penalty, "temperature": temperature, "top_k": top_k,
                          "top_p": top_p, "min_p": min_p, "ids": ids, "probabilities": [round(p, 9) for p in probabilities]})
    rows = {"rows": [TIED, PAIRED], "seen": SEEN}
    text = json.dumps(rows)[:-1] + ', "cases": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]}\n"
    (pathlib.Path(sys.argv[1]) / "sampling.json").write_text(text)
    print(len(cases), "cases,", len(text), "bytes")


main()
