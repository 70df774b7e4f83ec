#!/usr/bin/env python3
"""Writes sequence_reference.inc: layers over sequences, computed by PyTorch in float64.

Usage: python3 tests/nn/sequence_reference.py > tests/nn/sequence_reference.inc
Needs the Python package torch; the first line of the output names its version. All numbers that go in come from a
formula (`numbers` below), so the same version gives the same file.

The loss of a case is the sum of all results, each times a number of the formula. Stored are the rows of the result,
and for each parameter and input the sum of its gradient's elements times such numbers, and of their magnitudes.
"""

import torch
from torch import nn

LENGTHS = (3, 5, 1, 4)
OTHERS = (2, 4, 6, 1)  # of the memory that a decoder sees
MASK = (1 << 64) - 1


def hashed(value):
    """splitmix64"""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def numbers(number, *shape):
    """From -0.5 to 0.5 in steps of 2^-20, exact in fp32: element i is the hash of (number << 32) + i."""
    count = torch.Size(shape).numel()
    values = [(hashed((number << 32) + i) >> 44) / (1 << 20) - 0.5 for i in range(count)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


INPUT, MEMORY, RESULT, STATES, PROBE = 1000, 1001, 2000, 2001, 3000


class Case:
    def __init__(self, name):
        self.name, self.parameters = name, {}

    def parameter(self, name, *shape, around=0.0):
        value = numbers(len(self.parameters), *shape) + around
        self.parameters[name] = value.requires_grad_()
        return self.parameters[name]

    def leaf(self, name, number, *shape):
        self.parameters[name] = numbers(number, *shape).requires_grad_()
        return self.parameters[name]

    def finish(self, rows, states=None):
        loss = (rows * numbers(RESULT, *rows.shape)).sum()
        if states is not None:
            loss = loss + (states * numbers(STATES, *states.shape)).sum()
        loss.backward()
        flat = ", ".join(repr(value) for value in rows.detach().flatten().tolist())
        print(f"constexpr double {self.name}_rows[] = {{{flat}}};")
        print(f"constexpr Figure {self.name}_gradients[] = {{")
        for number, (name, parameter) in enumerate(self.parameters.items()):
            gradient = parameter.grad
            dot = (gradient * numbers(PROBE + number, *gradient.shape)).sum().item()
            print(f'    {{"{name}", {dot!r}, {gradient.abs().sum().item()!r}}},')
        print("};")


def recurrent(kind):
    """Two layers, both directions, as packed sequences."""
    case, inner, hidden = Case(kind.__name__.lower()), 3, 4
    module = kind(inner, hidden, num_layers=2, bidirectional=True).double()
    for name, parameter in module.named_parameters():
        module._parameters[name] = case.parameter(name, *parameter.shape)
    module._flat_weights = [getattr(module, name) for name in module._flat_weights_names]
    x = case.leaf("x", INPUT, sum(LENGTHS), inner)
    packed = nn.utils.rnn.pack_sequence(list(x.split(LENGTHS)), enforce_sorted=False)
    out, last = module(packed)
    if isinstance(last, tuple):
        last = torch.stack(last)
    padded, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    case.finish(torch.cat([padded[i, :length] for i, length in enumerate(LENGTHS)]), last)


WIDTH, HEADS, INNER = 8, 2, 12


def attention(case, module, name):
    """The parameters of a MultiheadAttention, under our names."""
    parts = [case.parameter(f"{name}.{part}.{kind}", *shape) for part in ("query", "key", "value")
             for kind, shape in (("weight", (WIDTH, WIDTH)), ("bias", (WIDTH,)))]
    output = [case.parameter(f"{name}.output.{kind}", *shape)
              for kind, shape in (("weight", (WIDTH, WIDTH)), ("bias", (WIDTH,)))]
    replace(module, "in_proj_weight", torch.cat(parts[0::2]))
    replace(module, "in_proj_bias", torch.cat(parts[1::2]))
    replace(module.out_proj, "weight", output[0])
    replace(module.out_proj, "bias", output[1])


def replace(module, name, value):
    """A tensor with a history in place of a parameter."""
    del module._parameters[name]
    setattr(module, name, value)


def linear(case, module, name):
    for kind in ("weight", "bias"):
        replace(module, kind, case.parameter(f"{name}.{kind}", *getattr(module, kind).shape))


def norm(case, module, name):
    replace(module, "weight", case.parameter(f"{name}.weight", WIDTH, around=1.0))
    replace(module, "bias", case.parameter(f"{name}.bias", WIDTH))


def options(norm_first):
    return {"d_model": WIDTH, "nhead": HEADS, "dim_feedforward": INNER, "dropout": 0.0, "activation": "gelu",
            "batch_first": True, "norm_first": norm_first}


def encoder():
    """Two causal layers, a sequence at a time."""
    case, layers = Case("encoder"), []
    for i in range(2):
        layer = nn.TransformerEncoderLayer(**options(False)).double()
        attention(case, layer.self_attn, f"layer.{i}.attention")
        norm(case, layer.norm1, f"layer.{i}.attention_norm")
        linear(case, layer.linear1, f"layer.{i}.inner")
        linear(case, layer.linear2, f"layer.{i}.outer")
        norm(case, layer.norm2, f"layer.{i}.outer_norm")
        layers.append(layer)
    x = case.leaf("x", INPUT, sum(LENGTHS), WIDTH)
    rows = []
    for part in x.split(LENGTHS):
        causal = nn.Transformer.generate_square_subsequent_mask(len(part), dtype=torch.float64)
        h = part[None]
        for layer in layers:
            h = layer(h, src_mask=causal)
        rows.append(h[0])
    case.finish(torch.cat(rows))


def decoder():
    """Two layers with norms first, a sequence and its memory at a time."""
    case, layers = Case("decoder"), []
    for i in range(2):
        layer = nn.TransformerDecoderLayer(**options(True)).double()
        attention(case, layer.self_attn, f"layer.{i}.self_attention")
        norm(case, layer.norm1, f"layer.{i}.self_attention_norm")
        attention(case, layer.multihead_attn, f"layer.{i}.cross_attention")
        norm(case, layer.norm2, f"layer.{i}.cross_attention_norm")
        linear(case, layer.linear1, f"layer.{i}.inner")
        linear(case, layer.linear2, f"layer.{i}.outer")
        norm(case, layer.norm3, f"layer.{i}.outer_norm")
        layers.append(layer)
    x = case.leaf("x", INPUT, sum(LENGTHS), WIDTH)
    memory = case.leaf("memory", MEMORY, sum(OTHERS), WIDTH)
    rows = []
    for part, seen in zip(x.split(LENGTHS), memory.split(OTHERS)):
        causal = nn.Transformer.generate_square_subsequent_mask(len(part), dtype=torch.float64)
        h = part[None]
        for layer in layers:
            h = layer(h, seen[None], tgt_mask=causal)
        rows.append(h[0])
    case.finish(torch.cat(rows))


def rotary():
    """Rotary positions as Llama has them, and attention with a mask: key j is hidden from query i where (i + 2 j) % 5
    is 3, but no query from itself."""
    case, width = Case("rotary"), WIDTH // HEADS
    x = case.leaf("x", INPUT, sum(LENGTHS), 3 * WIDTH)
    rows = []
    for part in x.split(LENGTHS):
        length = len(part)
        q, k, v = (part[:, i * WIDTH:(i + 1) * WIDTH].reshape(length, HEADS, width).transpose(0, 1) for i in range(3))
        frequencies = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies
        cosine, sine = (torch.cat((f, f), -1) for f in (angles.cos(), angles.sin()))

        def turned(t, cosine=cosine, sine=sine):
            return t * cosine + torch.cat((-t[..., width // 2:], t[..., :width // 2]), -1) * sine

        i, j = torch.arange(length)[:, None], torch.arange(length)[None]
        seen = ((i + 2 * j) % 5 != 3) | (i == j)
        out = nn.functional.scaled_dot_product_attention(turned(q), turned(k), v, attn_mask=seen)
        rows.append(out.transpose(0, 1).reshape(length, WIDTH))
    case.finish(torch.cat(rows))


def main():
    torch.set_num_threads(1)
    print(f"// By tests/nn/sequence_reference.py with torch {torch.__version__}.")
    print("// clang-format off")
    recurrent(nn.GRU)
    recurrent(nn.LSTM)
    encoder()
    decoder()
    rotary()
    print("// clang-format on")


if __name__ == "__main__":
    main()
