#!/usr/bin/env python3
"""Writes the models of the parity tests as files of the transformers package. Standard library only.

    model_files.py tiny ROWS FOLDER          a small BERT whose weights are a function of their names, for the words of ROWS
    model_files.py pretrained MODEL FOLDER   the pretrained BERT in the folder MODEL, with a classifier on top

FOLDER gets config.json, vocab.txt and model.safetensors (fp32). ROWS has a row of text<TAB>label on each line. Element
(i, j) of the classifier is 0.02 * sin(1 + i * width + j), its bias 0.
"""

import array
import collections
import json
import math
import pathlib
import random
import re
import struct
import sys

LABELS = 2
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORD = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")
TINY = dict(model_type="bert", hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
            max_position_embeddings=128, type_vocab_size=2, layer_norm_eps=1e-12, hidden_act="gelu", pad_token_id=0,
            hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)


def words(text):
    """The words of an ASCII text, as BERT cuts it."""
    if not text.isascii():
        raise SystemExit("only texts in ASCII: " + text)
    return WORD.findall(text.lower())


def read_rows(path):
    """(text, label) of each line."""
    rows = (line.rsplit("\t", 1) for line in path.read_text(encoding="ascii").splitlines())
    return [(text, int(label)) for text, label in rows]


def vocabulary(texts):
    """Words that are there twice, and all characters, so that rarer words are spelled."""
    counts = collections.Counter(word for text in texts for word in words(text))
    characters = sorted({character for word in counts for character in word})
    often = sorted(word for word, count in counts.items() if count > 1 and len(word) > 1)
    return SPECIAL + characters + ["##" + character for character in characters] + often


def read_safetensors(path):
    """{name: (shape, fp32 bytes)}; other types are left out, as position_ids of old files."""
    data = path.read_bytes()
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + length])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            found[name] = (entry["shape"], data[begin:end])
    return found


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, (shape, data) in tensors.items():
        header[name] = dict(dtype="F32", shape=shape, data_offsets=[offset, offset + len(data)])
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values()))


def floats(values):
    found = array.array("f", values)
    if sys.byteorder == "big":
        found.byteswap()
    return found.tobytes()


def tiny_shapes(rows):
    width, inner = TINY["hidden_size"], TINY["intermediate_size"]
    found = {}

    def dense(name, outputs, inputs):
        found[name + ".weight"], found[name + ".bias"] = [outputs, inputs], [outputs]

    def norm(name):
        found[name + ".LayerNorm.weight"] = found[name + ".LayerNorm.bias"] = [width]

    for kind, count in (("word", rows), ("position", TINY["max_position_embeddings"]), ("token_type", 2)):
        found[f"embeddings.{kind}_embeddings.weight"] = [count, width]
    norm("embeddings")
    for layer in range(TINY["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            dense(f"{at}.attention.{name}", width, width)
        norm(at + ".attention.output")
        dense(at + ".intermediate.dense", inner, width)
        dense(at + ".output.dense", width, inner)
        norm(at + ".output")
    dense("pooler.dense", width, width)
    return found


def tiny_weight(name, shape):
    """Multiples of 2^-22, exact in fp32: uniform in +-1/8, and near 1 for the scales of norms."""
    draw = random.Random(name)
    base = 1.0 if name.endswith("LayerNorm.weight") else 0.0
    return floats(base + (draw.getrandbits(20) / 2**20 - 0.5) / 4 for _ in range(math.prod(shape)))


def write_model(folder, config, names, tensors):
    width = config["hidden_size"]
    config = dict(config, architectures=["BertForSequenceClassification"],
                  id2label={str(i): f"LABEL_{i}" for i in range(LABELS)},
                  label2id={f"LABEL_{i}": i for i in range(LABELS)})
    tensors = {"bert." + name: tensor for name, tensor in tensors.items()}
    tensors["classifier.weight"] = ([LABELS, width], floats(0.02 * math.sin(1 + i) for i in range(LABELS * width)))
    tensors["classifier.bias"] = ([LABELS], floats([0.0] * LABELS))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "vocab.txt").write_text("".join(name + "\n" for name in names), encoding="utf-8")
    write_safetensors(folder / "model.safetensors", tensors)


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("tiny", "pretrained"):
        raise SystemExit(__doc__)
    source, folder = (pathlib.Path(argument) for argument in sys.argv[2:])
    if sys.argv[1] == "tiny":
        names = vocabulary(text for text, _ in read_rows(source))
        tensors = {name: (shape, tiny_weight(name, shape)) for name, shape in tiny_shapes(len(names)).items()}
        write_model(folder, dict(TINY, vocab_size=len(names)), names, tensors)
    else:
        names = (source / "vocab.txt").read_text(encoding="utf-8").split("\n")
        write_model(folder, json.loads((source / "config.json").read_text()), names[:-1] if not names[-1] else names,
                    read_safetensors(source / "model.safetensors"))


if __name__ == "__main__":
    main()
