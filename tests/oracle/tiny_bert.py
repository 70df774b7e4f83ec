#!/usr/bin/env python3
"""Writes tiny_bert.json and tiny_bert_gradients.bin: ten training steps of a small BERT in float64.

Usage: python3 tests/oracle/tiny_bert.py [FOLDER]
Needs the Python package torch (CPU). README.md says what is computed and what the files hold.
"""

import argparse
import json
import math
import pathlib
import struct

import torch

WIDTH, LAYERS, HEADS, INNER, VOCABULARY, POSITIONS, TYPES, LABELS = 64, 2, 4, 48, 48, 24, 2, 3
LENGTHS = [5, 1, 24, 9, 2, 16, 3, 11]
STEPS, RATE, BETA1, BETA2, EPSILON, DECAY, CLIP = 10, 1e-3, 0.9, 0.999, 1e-8, 0.01, 1.0
PROBES = [
    ("classifier.weight", 0),
    ("bert.pooler.dense.weight", 65),
    ("bert.encoder.layer.1.output.dense.bias", 7),
    ("bert.encoder.layer.0.attention.self.query.weight", 66),
    ("bert.embeddings.LayerNorm.weight", 3),
    ("bert.embeddings.position_embeddings.weight", 5),
]
MASK = 2**64 - 1
FULL = 2**23 - 1


def splitmix64(x):
    z = (x + 0x9E3779B97F4A7C15) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def shapes():
    """Shape of each parameter, names in ascending byte order."""
    found = {"classifier.weight": [LABELS, WIDTH], "classifier.bias": [LABELS]}

    def dense(name, rows, columns):
        found[name + ".weight"], found[name + ".bias"] = [rows, columns], [rows]

    def norm(name):
        found[name + ".LayerNorm.weight"] = found[name + ".LayerNorm.bias"] = [WIDTH]

    for kind, rows in ("word", VOCABULARY), ("position", POSITIONS), ("token_type", TYPES):
        found[f"bert.embeddings.{kind}_embeddings.weight"] = [rows, WIDTH]
    norm("bert.embeddings")
    for layer in range(LAYERS):
        at = f"bert.encoder.layer.{layer}"
        for name in "self.query", "self.key", "self.value", "output.dense":
            dense(f"{at}.attention.{name}", WIDTH, WIDTH)
        norm(at + ".attention.output")
        dense(at + ".intermediate.dense", INNER, WIDTH)
        dense(at + ".output.dense", WIDTH, INNER)
        norm(at + ".output")
    dense("bert.pooler.dense", WIDTH, WIDTH)
    return dict(sorted(found.items()))


def weight(name, number, index):
    u = (splitmix64((number << 32) + index) >> 44) / 2**20 - 0.5  # 20 bits: 1 + u / 8 is exact too
    if name.endswith("LayerNorm.weight"):
        return 1 + u * 0.125
    if name.endswith("LayerNorm.bias"):
        return u * 0.125
    if name.endswith(".bias"):
        return u * 0.0625
    # A small head lets some steps' gradients be clipped, and others' not.
    return u * (0.125 if name in ("bert.pooler.dense.weight", "classifier.weight") else 0.25)


def batch(step):
    lengths = [LENGTHS[(k + 3 * step) % 8] for k in range(8)]
    ids = [splitmix64((64 + step << 32) + t) % VOCABULARY for t in range(sum(lengths))]
    labels = [splitmix64((128 + step << 32) + k) % LABELS for k in range(8)]
    return lengths, ids, labels


def linear(w, name, x):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def layer_norm(w, name, x):
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    normal = centred / torch.sqrt(variance + 1e-12)
    return normal * w[name + ".LayerNorm.weight"] + w[name + ".LayerNorm.bias"]


def logits(w, ids, layers, heads):
    """Of one sequence; dropout off."""
    at = "bert.embeddings."
    x = w[at + "word_embeddings.weight"][ids]
    x = x + w[at + "position_embeddings.weight"][: len(ids)]
    x = layer_norm(w, "bert.embeddings", x + w[at + "token_type_embeddings.weight"][0])
    for layer in range(layers):
        at = f"bert.encoder.layer.{layer}."
        split = (len(ids), heads, x.shape[1] // heads)
        q, k, v = (
            linear(w, f"{at}attention.self.{part}", x).reshape(split).transpose(0, 1)
            for part in ("query", "key", "value")
        )
        shares = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(split[2]), -1)
        mixed = (shares @ v).transpose(0, 1).reshape(x.shape)
        mixed = linear(w, at + "attention.output.dense", mixed)
        x = layer_norm(w, at + "attention.output", x + mixed)
        inner = linear(w, at + "intermediate.dense", x)
        inner = 0.5 * inner * (1 + torch.erf(inner / math.sqrt(2)))
        x = layer_norm(w, at + "output", x + linear(w, at + "output.dense", inner))
    return linear(w, "classifier", torch.tanh(linear(w, "bert.pooler.dense", x[0])))


def train(w, batches, layers, heads, rate):
    """Yields (logits, loss, gradients, gradient norm) of every step; changes the weights `w`."""
    first, second = ({n: torch.zeros_like(x) for n, x in w.items()} for _ in range(2))
    for step, (lengths, ids, labels) in enumerate(batches, start=1):
        for x in w.values():
            x.requires_grad_(True)
            x.grad = None
        parts = torch.tensor(ids).split(lengths)
        out = torch.stack([logits(w, part, layers, heads) for part in parts])
        loss = -torch.log_softmax(out, 1)[range(len(labels)), labels].mean()
        loss.backward()
        grads = {n: x.grad for n, x in w.items()}
        norm = math.sqrt(sum((g.double() ** 2).sum().item() for g in grads.values()))
        factor = CLIP / (norm + 1e-6) if norm > CLIP else 1.0
        with torch.no_grad():
            for n, x in w.items():
                g = grads[n] * factor
                first[n] = BETA1 * first[n] + (1 - BETA1) * g
                second[n] = BETA2 * second[n] + (1 - BETA2) * g * g
                root = torch.sqrt(second[n] / (1 - BETA2**step)) + EPSILON
                x.mul_(1 - rate * DECAY).sub_(rate * (first[n] / (1 - BETA1**step)) / root)
        yield out.detach().double(), loss.item(), grads, norm


def run(dtype):
    w = {}
    for number, (name, shape) in enumerate(shapes().items()):
        values = [weight(name, number, i) for i in range(math.prod(shape))]
        w[name] = torch.tensor(values, dtype=dtype).reshape(shape)
    start = b"".join(struct.pack(f"<{x.numel()}f", *x.flatten().tolist()) for x in w.values())
    result = dict(start=start, loss=[], norm=[], probe=[])
    for out, loss, grads, norm in train(w, map(batch, range(STEPS)), LAYERS, HEADS, RATE):
        result.setdefault("logits", out)
        result.setdefault("grads", {n: g.double() for n, g in grads.items()})
        result["loss"].append(loss)
        result["norm"].append(norm)
        result["probe"].append([w[n].flatten()[i].item() for n, i in PROBES])
    result["weights"] = {n: x.detach().double() for n, x in w.items()}
    return result


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & MASK
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = pathlib.Path(__file__).parent
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=here)
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    exact, single = run(torch.float64), run(torch.float32)
    tensor = lambda a: torch.tensor(a, dtype=torch.float64)
    worst = lambda a, b: (tensor(a) - tensor(b)).abs().max().item()
    short = lambda x: float(f"{x:.2e}")
    twelve = lambda x: float(f"{x:.12g}")
    store, parameters, sums, absolutes, zeros, moved = b"", [], [], [], [], []
    for name, g in exact["grads"].items():
        # A key's bias shifts all scores of a query alike: its gradient is 0 but for rounding, and
        # Adam makes steps of that rounding. Errors are relative to the key's weight there.
        zero = name.endswith("key.bias")
        scale = exact["grads"][name.replace("key.bias", "key.weight")].abs().max().item()
        top = 0.0 if zero else scale
        codes = [0 if zero else round(x * FULL / top) for x in g.flatten().tolist()]
        before, after = exact["weights"][name], single["weights"][name]
        total = before.abs().sum().item()
        parameters.append(dict(
            name=name, shape=list(g.shape), offset=len(store), max_abs=top,
            sum=twelve(before.sum().item()), sum_abs=twelve(total),
            fp32_gradient=short(worst(single["grads"][name].tolist(), g.tolist()) / scale),
        ))  # fmt: skip
        store += b"".join(struct.pack("<i", c)[:3] for c in codes)
        if not zero:
            sums.append(abs(after.sum().item() - before.sum().item()) / total)
            absolutes.append(abs(after.abs().sum().item() - total) / total)
            moved.append((after - before).abs().max().item())
    ratio = [abs(a / b - 1) for a, b in zip(single["norm"], exact["norm"])]
    fp32 = dict(
        logits=short((single["logits"] - exact["logits"]).abs().max().item()),
        loss=short(worst(single["loss"], exact["loss"])), grad_norm_relative=short(max(ratio)),
        probe=short(worst(single["probe"], exact["probe"])), sum=short(max(sums)),
        sum_abs=short(max(absolutes)), weight=short(max(moved)),
        gradient=max(p["fp32_gradient"] for p in parameters),
    )  # fmt: skip
    steps = []
    for s in range(STEPS):
        lengths, ids, labels = batch(s)
        steps.append(dict(lengths=lengths, ids=ids, labels=labels, loss=exact["loss"][s],
                          grad_norm=exact["norm"][s], probe=exact["probe"][s]))  # fmt: skip
    config = dict(
        hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=INNER, vocab_size=VOCABULARY, max_position_embeddings=POSITIONS,
        type_vocab_size=TYPES, num_labels=LABELS, layer_norm_eps=1e-12, hidden_act="gelu",
    )  # fmt: skip
    optimizer = dict(lr=RATE, beta1=BETA1, beta2=BETA2, eps=EPSILON, weight_decay=DECAY, clip=CLIP)
    formula = dict(
        splitmix64=["9e3779b97f4a7c15", "bf58476d1ce4e5b9", "94d049bb133111eb"], bits=20,
        matrix=0.25, head=0.125, bias=0.0625, norm=0.125, ids=64, labels=128,
    )  # fmt: skip
    document = dict(
        torch=torch.__version__, config=config, optimizer=optimizer, formula=formula,
        weights_fnv1a64=f"{fnv1a(exact['start']):016x}", gradients_fnv1a64=f"{fnv1a(store):016x}",
        probes=PROBES, logits=exact["logits"].tolist(), fp32=fp32, steps=steps,
        parameters=parameters,
    )  # fmt: skip
    compact = lambda x: json.dumps(x, separators=(",", ":"))
    lines = lambda v: "[\n" + ",\n".join(map(compact, v)) + "]"
    row = lambda k, v: f'"{k}":' + (lines(v) if k in ("steps", "parameters") else compact(v))
    text = "{\n" + ",\n".join(row(k, v) for k, v in document.items()) + "}\n"
    (folder / "tiny_bert.json").write_text(text)
    (folder / "tiny_bert_gradients.bin").write_bytes(store)


if __name__ == "__main__":
    main()
