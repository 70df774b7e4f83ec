"""The same cases as soma_worker.cpp, with PyTorch: a line in, a measurement out.

    torch_worker.py step MODEL fp32|bf16 BATCH MAX_LENGTH THREADS LENGTHS|full max|batch|sorted
    torch_worker.py linear M N K fp32|bf16 THREADS forward|dx|dw
    torch_worker.py infer MODEL TOKENS THREADS
"""

import json
import random
import resource
import sys
import time

import torch

DIMENSIONS = {"base": (768, 12, 12, 3072), "minilm": (384, 6, 12, 1536), "tiny": (128, 2, 2, 512)}


def classifier(model):
    from transformers import BertConfig, BertForSequenceClassification
    width, layers, heads, inner = DIMENSIONS[model]
    return BertForSequenceClassification(BertConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner, num_labels=2,
        attn_implementation="sdpa"))


def answer(seconds, tokens, flops):
    print(json.dumps({"seconds": seconds, "tokens": tokens, "gflops": flops / seconds * 1e-9,
                      "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}), flush=True)


def useful_flops(model, lengths):
    """Products of the encoder's matrices and attention, forward and backward, of real tokens alone."""
    width, layers, _, inner = DIMENSIONS[model]
    matrices = layers * (4 * width * width + 2 * width * inner)
    return sum(6 * length * matrices + 12 * layers * width * length * length for length in lengths)


def batches(lengths, size, padding):
    count = max(len(lengths) // size, 1) * size
    rows = [lengths[i % len(lengths)] for i in range(count)]
    if padding == "sorted":
        rows.sort()
    groups = [rows[i:i + size] for i in range(0, count, size)]
    if padding == "sorted":
        random.Random(1).shuffle(groups)
    return groups


def step(model, mode, size, longest, threads, source, padding):
    torch.set_num_threads(int(threads))
    size, longest = int(size), int(longest)
    if source == "full":
        lengths = [longest]
    else:
        with open(source, encoding="ascii") as file:
            lengths = [min(int(line), longest) for line in file]
    network = classifier(model).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-5, fused=True)
    groups, at = batches(lengths, size, padding), 0

    def one():
        nonlocal at
        group = groups[at % len(groups)]
        at += 1
        columns = longest if padding == "max" else max(group)
        ids = torch.randint(1000, 30000, (len(group), columns))
        mask = (torch.arange(columns)[None, :] < torch.tensor(group)[:, None]).long()
        labels = torch.arange(len(group)) % 2
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mode == "bf16"):
            loss = network(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - start, group

    one()
    for line in sys.stdin:
        done = [one() for _ in range(int(line))]
        seconds = sum(elapsed for elapsed, _ in done)
        tokens = sum(sum(group) for _, group in done)
        answer(seconds, tokens, sum(useful_flops(model, group) for _, group in done))


def repeat(work):
    work()
    for _ in sys.stdin:
        start, rounds = time.perf_counter(), 0
        while rounds == 0 or time.perf_counter() - start < 0.2:
            work()
            rounds += 1
        yield time.perf_counter() - start, rounds


def linear(m, n, k, dtype, threads, direction):
    torch.set_num_threads(int(threads))
    m, n, k = int(m), int(n), int(k)
    kind = torch.bfloat16 if dtype == "bf16" else torch.float32
    x, weight, dy = (torch.randn(*shape).to(kind) for shape in ((m, k), (n, k), (m, n)))
    work = {"forward": lambda: torch.nn.functional.linear(x, weight), "dx": lambda: dy @ weight,
            "dw": lambda: dy.t() @ x}[direction]
    with torch.no_grad():
        for seconds, rounds in repeat(work):
            answer(seconds, 0, 2.0 * m * n * k * rounds)


def infer(model, tokens, threads):
    torch.set_num_threads(int(threads))
    network = classifier(model).eval()
    ids = torch.full((1, int(tokens)), 2000)
    with torch.no_grad():
        for seconds, rounds in repeat(lambda: network(input_ids=ids)):
            answer(seconds / rounds, int(tokens), 0)


if __name__ == "__main__":
    torch.manual_seed(1)
    {"step": step, "linear": linear, "infer": infer}[sys.argv[1]](*sys.argv[2:])
