#!/usr/bin/env python3
"""Computes the figures of the parity tests: training steps of a BERT in PyTorch, in float64, without dropout.

    python3 tests/parity/oracle.py MODEL ROWS ORACLE.json [--steps 20] [--fp32]

Needs the Python package torch (CPU). MODEL is a folder of model_files.py and ROWS a file of write_reviews. Step s takes
rows 16 s to 16 s + 15, of at most 128 tokens: [CLS] ... [SEP]. Loss: mean cross entropy. The norm of all gradients is
clipped to 1. AdamW: learning rate 5e-5, betas 0.9 and 0.999, epsilon 1e-8, decay 0.01 of every parameter. The model and
its steps are those of tests/oracle/tiny_bert.py, and share no code with soma.

ORACLE.json gets loss and grad_norm (before clipping) of each step, probe (three weights after each), logits0 (of the
first step), ids of its rows and the number of all tokens; with --fp32 also how far the same steps in PyTorch's fp32 are
away. It is written after each step, so an interrupted run leaves the figures of fewer steps.
"""

import argparse
import json
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
import model_files  # noqa: E402
import tiny_bert  # noqa: E402

BATCH, LONGEST, RATE = 16, 128, 5e-5
PROBES = [("classifier.weight", (0, 0)), ("bert.encoder.layer.0.attention.self.query.weight", (1, 2)),
          ("bert.embeddings.LayerNorm.weight", (3,))]


def pieces(word, ids):
    """The longest piece first, as BERT does it."""
    found, begin = [], 0
    while begin < len(word):
        for end in range(len(word), begin, -1):
            piece = word[begin:end] if begin == 0 else "##" + word[begin:end]
            if piece in ids:
                found.append(ids[piece])
                begin = end
                break
        else:
            return [ids["[UNK]"]]
    return found


def tokens(text, ids):
    found = [piece for word in model_files.words(text) for piece in pieces(word, ids)]
    return [ids["[CLS]"], *found[:LONGEST - 2], ids["[SEP]"]]


def run(tensors, config, rows, dtype, look):
    """The trajectory over all rows; look(trajectory) is called after each step."""
    weights = {name: torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(shape).to(dtype)
               for name, (shape, data) in tensors.items()}
    batches = []
    for begin in range(0, len(rows), BATCH):
        part = rows[begin:begin + BATCH]
        batches.append(([len(ids) for ids, _ in part], [i for ids, _ in part for i in ids], [label for _, label in part]))
    result = dict(loss=[], grad_norm=[], probe=[])
    steps = tiny_bert.train(weights, batches, config["num_hidden_layers"], config["num_attention_heads"], RATE)
    for out, loss, _, norm in steps:
        result.setdefault("logits0", out.tolist())
        result["loss"].append(loss)
        result["grad_norm"].append(norm)
        result["probe"].append([weights[name][at].item() for name, at in PROBES])
        print(f"{dtype}: step {len(result['loss'])}, loss {loss:.6f}, norm {norm:.4f}", flush=True)
        look(result)
    return result


def differences(exact, single):
    """How far fp32 is away at most."""
    def worst(name, relative=False):
        pairs = zip(*(torch.tensor(run[name], dtype=torch.float64).flatten().tolist() for run in (single, exact)))
        return float(f"{max(abs(a - b) / (abs(b) if relative else 1) for a, b in pairs):.2e}")

    return dict(logits0=worst("logits0"), loss=worst("loss"), grad_norm_relative=worst("grad_norm", True),
                probe=worst("probe"))


def write(path, rows, vocabulary, trajectory, more):
    used = rows[:len(trajectory["loss"]) * BATCH]
    document = dict(precision="float64", torch=torch.__version__, batch=BATCH, max_len=LONGEST, lr=RATE, vocab=vocabulary,
                    tokens=sum(len(row) for row, _ in used), **more, **trajectory, ids=[row for row, _ in used[:BATCH]])

    def compact(value):
        return json.dumps(value, separators=(",", ":"))

    lists = ("probe", "logits0", "ids")  # a line for each row
    entries = [f'"{name}":' + ("[\n" + ",\n".join(map(compact, value)) + "]" if name in lists else compact(value))
               for name, value in document.items()]
    path.write_text("{\n" + ",\n".join(entries) + "}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("rows", type=pathlib.Path)
    parser.add_argument("oracle", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--fp32", action="store_true")
    options = parser.parse_args()
    pieces_file = (options.model / "vocab.txt").read_text(encoding="utf-8")
    ids = {piece: i for i, piece in enumerate(pieces_file.split("\n")) if piece}
    rows = [(tokens(text, ids), label) for text, label in model_files.read_rows(options.rows)][:options.steps * BATCH]
    if len(rows) < options.steps * BATCH:
        raise SystemExit(f"{options.rows}: {len(rows)} rows, {options.steps * BATCH} wanted")
    config = json.loads((options.model / "config.json").read_text())
    tensors = model_files.read_safetensors(options.model / "model.safetensors")

    def keep(trajectory, more={}):
        write(options.oracle, rows, len(ids), trajectory, more)

    exact = run(tensors, config, rows, torch.float64, keep)
    if options.fp32:
        single = run(tensors, config, rows, torch.float32, lambda trajectory: None)
        keep(exact, dict(fp32=differences(exact, single)))


if __name__ == "__main__":
    main()
