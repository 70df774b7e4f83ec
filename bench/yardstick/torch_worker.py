"""The same cases as soma_worker.cpp, with PyTorch: a line in, a measurement out.

    torch_worker.py step MODEL fp32|bf16 BATCH MAX_LENGTH THREADS LENGTHS|full max|batch|sorted
    torch_worker.py decoder gpt2|smollm2 fp32|bf16 BATCH LENGTH THREADS
    torch_worker.py linear M N K fp32|bf16 THREADS forward|dx|dw
    torch_worker.py infer MODEL TOKENS THREADS
    torch_worker.py gru|lstm BATCH WIDTH THREADS LENGTHS
    torch_worker.py batch_norm N CHANNELS SIZE THREADS

And once, for a whole epoch of fine-tuning a pretrained model (a folder) on labelled rows:

    torch_worker.py epoch MODEL_FOLDER TRAIN.tsv HELD_OUT.tsv THREADS batch|sorted
"""

import functools
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
    """What the loss depends on, as training_flops() of soma/models/bert.hpp counts it: no padding, and of the last layer keys
    and values of all tokens, the rest of first tokens."""
    width, layers, _, inner = DIMENSIONS[model]
    matrices = 4 * width * width + 2 * width * inner

    def forward(length):
        layer = 2 * length * matrices + 4 * width * length * length
        last = 4 * length * width * width + 2 * (matrices - 2 * width * width) + 4 * width * length
        return (layers - 1) * layer + last + 2 * width * width
    return 3 * sum(map(forward, lengths))


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


def decoder(model, mode, size, length, threads):
    """Dropout as soma's case has it: GPT-2's 0.1 at three sites."""
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    torch.set_num_threads(int(threads))
    size, length = int(size), int(length)
    if model == "gpt2":
        network = GPT2LMHeadModel(GPT2Config(attn_implementation="sdpa"))
    else:
        network = LlamaForCausalLM(LlamaConfig(
            vocab_size=49152, hidden_size=576, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
            intermediate_size=1536, tie_word_embeddings=True, rope_theta=100000.0, max_position_embeddings=2048,
            attn_implementation="sdpa"))
    network.train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-5, fused=True)
    words = network.config.vocab_size

    def one():
        ids = torch.randint(0, words, (size, length))
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mode == "bf16"):
            loss = network(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - start

    one()
    for line in sys.stdin:
        answer(sum(one() for _ in range(int(line))), size * length * int(line), 0)


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


def recurrent(kind, size, width, threads, source):
    """Packed sequences, forward and backward; the same batches as soma_worker.cpp."""
    torch.set_num_threads(int(threads))
    size, width, at = int(size), int(width), 0
    with open(source, encoding="ascii") as file:
        groups = batches([int(line) for line in file], size, "batch")
    module = kind(width, width)

    def one():
        nonlocal at
        group = groups[at % len(groups)]
        at += 1
        x = torch.randn(sum(group), width, requires_grad=True)
        start = time.perf_counter()
        packed = torch.nn.utils.rnn.pack_sequence(x.split(group), enforce_sorted=False)
        module(packed)[0].data.sum().backward()
        elapsed = time.perf_counter() - start
        module.zero_grad()
        return elapsed, sum(group)

    one()
    for line in sys.stdin:
        done = [one() for _ in range(int(line))]
        answer(sum(elapsed for elapsed, _ in done), sum(tokens for _, tokens in done), 0)


def batch_norm(images, channels, size, threads):
    torch.set_num_threads(int(threads))
    norm = torch.nn.BatchNorm2d(int(channels))
    x = torch.randn(int(images), int(channels), int(size), int(size), requires_grad=True)
    dy = torch.randn_like(x)

    def work():
        norm(x).backward(dy)
        x.grad = None
        norm.zero_grad()

    for seconds, rounds in repeat(work):
        answer(seconds / rounds, 0, 0)


def read_rows(path, tokenizer):
    """Token ids and label of each row, text<TAB>label."""
    with open(path, encoding="utf-8") as file:
        fields = [line.rstrip("\n").rsplit("\t", 1) for line in file]
    encoded = tokenizer.encode_batch([text for text, _ in fields])
    return [(tokens.ids, int(label)) for tokens, (_, label) in zip(encoded, fields)]


def padded(rows):
    columns = max(len(ids) for ids, _ in rows)
    ids, mask = torch.zeros(len(rows), columns, dtype=torch.long), torch.zeros(len(rows), columns, dtype=torch.long)
    for i, (tokens, _) in enumerate(rows):
        ids[i, :len(tokens)], mask[i, :len(tokens)] = torch.tensor(tokens), 1
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([label for _, label in rows])}


def epoch(folder, train, held_out, threads, padding):
    """Batches of 32, AdamW at 1e-4 falling to 0, decay 0.01 of matrices, clipping at 1, texts cut at 128 tokens."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertForSequenceClassification
    torch.set_num_threads(int(threads))
    tokenizer = BertWordPieceTokenizer(folder + "/vocab.txt", lowercase=True)
    tokenizer.enable_truncation(128)
    rows, dev = read_rows(train, tokenizer), read_rows(held_out, tokenizer)
    network = BertForSequenceClassification.from_pretrained(folder).train()
    matrices = [p for p in network.parameters() if p.dim() > 1]
    vectors = [p for p in network.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01},
                                   {"params": vectors, "weight_decay": 0.0}], lr=1e-4, fused=True)
    shuffle = random.Random(1)
    shuffle.shuffle(rows)
    if padding == "sorted":
        rows.sort(key=lambda row: len(row[0]))
    groups = [rows[i:i + 32] for i in range(0, len(rows), 32)]
    shuffle.shuffle(groups)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: 1 - done / len(groups))
    start = time.perf_counter()
    for group in groups:
        network(**padded(group)).loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        rate.step()
        optimizer.zero_grad()
    seconds = time.perf_counter() - start
    network.eval()
    with torch.no_grad():
        parts = [padded(dev[i:i + 64]) for i in range(0, len(dev), 64)]
        hits = sum(int((network(**part).logits.argmax(1) == part["labels"]).sum()) for part in parts)
    print(json.dumps({"seconds": seconds, "accuracy": hits / len(dev),
                      "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}), flush=True)


if __name__ == "__main__":
    torch.manual_seed(1)
    {"step": step, "decoder": decoder, "linear": linear, "infer": infer, "batch_norm": batch_norm, "epoch": epoch,
     "gru": functools.partial(recurrent, torch.nn.GRU),
     "lstm": functools.partial(recurrent, torch.nn.LSTM)}[sys.argv[1]](*sys.argv[2:])
