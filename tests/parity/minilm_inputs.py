#!/usr/bin/env python3
"""Tokenises the first rows of a labelled text file for the parity test.

Usage: python3 tests/parity/minilm_inputs.py VOCABULARY TRAIN_TSV FOLDER [--rows 320] [--longest 128]
Needs the Python packages numpy and tokenizers. A row is `text<TAB>label`. FOLDER gets
  ids.npy      int32, the lower-cased word pieces of all rows in sequence, [CLS] ... [SEP] each
  offsets.npy  int64, rows + 1: row i has ids offsets[i] to offsets[i + 1]
  labels.npy   int32
"""

import argparse
import pathlib

import numpy as np
from tokenizers import BertWordPieceTokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vocabulary")
    parser.add_argument("train", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=20 * 16)
    parser.add_argument("--longest", type=int, default=128)
    options = parser.parse_args()

    # Not splitlines(): a sentence may hold other characters that Python takes for line ends.
    lines = options.train.read_text(encoding="utf-8").split("\n")[: options.rows]
    if len(lines) < options.rows or not all("\t" in line for line in lines):
        raise SystemExit(f"{options.train}: not {options.rows} rows of text<TAB>label")
    texts, labels = zip(*(line.rsplit("\t", 1) for line in lines))

    tokenizer = BertWordPieceTokenizer(options.vocabulary, lowercase=True)
    tokenizer.enable_truncation(options.longest)
    rows = [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]

    save = lambda name, values, dtype: np.save(options.folder / name, np.array(values, dtype))
    save("ids.npy", [i for row in rows for i in row], np.int32)
    save("offsets.npy", np.cumsum([0] + [len(row) for row in rows]), np.int64)
    save("labels.npy", [int(label) for label in labels], np.int32)
    longest = max(map(len, rows))
    print(f"{options.folder}: {len(rows)} rows, {sum(map(len, rows))} ids, longest {longest}")


if __name__ == "__main__":
    main()
