#!/usr/bin/env python3
"""Writes losses.json: the losses of the character model's first 50 steps, by PyTorch in float64.

    build/release/bin/character_model --text LICENSE --steps 0 --save initial.safetensors
    python3 tests/examples/character_model/losses.py initial.safetensors

Needs the Python package torch (CPU). The initial weights are those that the program makes; all else is written anew
here with PyTorch's functions: the model, its windows of text, AdamW with decay of matrices alone, clipping, schedule.
"""

import json
import math
import pathlib
import struct
import sys

import torch
from torch.nn import functional

HERE = pathlib.Path(__file__).resolve().parent
STEPS, WINDOW, WINDOWS, HEADS, LAYERS = 50, 64, 16, 4, 2
RATE, WARMUP, DECAY, CLIP, EPSILON = 3e-3, 50 // 20, 0.01, 1.0, 1e-5


def read_safetensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    dtypes = {"F32": torch.float32, "U8": torch.uint8}
    result = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            result[name] = torch.frombuffer(bytearray(data[begin:end]),
                                            dtype=dtypes[entry["dtype"]]).reshape(entry["shape"])
    return result


def logits(weights, ids):
    def linear(name, x):
        return functional.linear(x, weights[name + ".weight"], weights[name + ".bias"])

    def norm(name, x):
        return functional.layer_norm(x, x.shape[-1:], weights[name + ".weight"], weights[name + ".bias"], EPSILON)

    def heads(x):
        return x.reshape(*x.shape[:2], HEADS, -1).transpose(1, 2)

    x = weights["letters.weight"][ids] + weights["positions.weight"][None]
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        rows = norm(at + "attention_norm", x)
        mixed = functional.scaled_dot_product_attention(
            *(heads(linear(f"{at}attention.{name}", rows)) for name in ("query", "key", "value")), is_causal=True)
        x = x + linear(at + "attention.output", mixed.transpose(1, 2).reshape(x.shape))
        x = x + linear(at + "outer", functional.gelu(linear(at + "inner", norm(at + "outer_norm", x))))
    return linear("head", norm("norm", x))


def rate(step):
    if step < WARMUP:
        return RATE * (step + 1) / WARMUP
    return RATE * (1 - (step - WARMUP) / (STEPS - WARMUP))


def main():
    torch.set_num_threads(2)
    stored = read_safetensors(pathlib.Path(sys.argv[1]))
    alphabet = bytes(stored.pop("alphabet").tolist())
    weights = {name: tensor.double().requires_grad_() for name, tensor in stored.items()}
    text = torch.tensor([alphabet.index(byte) for byte in (HERE.parents[2] / "LICENSE").read_bytes()])
    matrices = [tensor for tensor in weights.values() if tensor.dim() > 1]
    others = [tensor for tensor in weights.values() if tensor.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY},
                                   {"params": others, "weight_decay": 0}], lr=RATE, eps=1e-8)
    losses = []
    for step in range(STEPS):
        begins = [(step * WINDOWS + i) * WINDOW % (len(text) - WINDOW) for i in range(WINDOWS)]
        inputs = torch.stack([text[begin:begin + WINDOW] for begin in begins])
        wanted = torch.stack([text[begin + 1:begin + WINDOW + 1] for begin in begins])
        loss = functional.cross_entropy(logits(weights, inputs).flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.step()
        losses.append(loss.item())
        assert math.isfinite(losses[-1])
    rows = ",\n  ".join(repr(loss) for loss in losses)
    (HERE / "losses.json").write_text(f'{{"torch": "{torch.__version__.split("+")[0]}", "losses": [\n  {rows}]}}\n')
    print(f"{losses[0]:.6f} to {losses[-1]:.6f}")


if __name__ == "__main__":
    main()
