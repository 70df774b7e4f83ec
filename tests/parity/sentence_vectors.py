#!/usr/bin/env python3
"""bert_classifier embed beside sentence-transformers: vectors of 200 sentences, of its folders and of a bare BERT.

Usage: sentence_vectors.py PROGRAM WORK      (sentence_vectors.sh makes the Python that has the packages)
"""

import os
import pathlib
import random
import shutil
import subprocess
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.remove(str(pathlib.Path(__file__).resolve().parent))  # transformers.py there is not the package

import numpy as np  # noqa: E402
import torch  # noqa: E402
from sentence_transformers import SentenceTransformer  # noqa: E402
from sentence_transformers.models import Normalize, Pooling, Transformer  # noqa: E402
from transformers import BertConfig, BertModel, BertTokenizerFast  # noqa: E402

WORDS = """the a of and to in is it was for on that with as at by an be this from or have not are but
had his they you which one were all her she there would their we him been has when who will no more if out so""".split()


def sentences():
    chosen = random.Random(20)
    made = []
    for _ in range(200):
        words = [chosen.choice(WORDS) for _ in range(chosen.randint(1, 40))]
        made.append(" ".join(word.capitalize() if chosen.random() < 0.1 else word for word in words))
    return made


def write_model(folder):
    """A random BERT with a vocabulary of the words and of letters."""
    folder.mkdir(parents=True)
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + each for each in letters), *WORDS]
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(pieces)) + "\n")
    tokenizer = BertTokenizerFast(vocab_file=str(folder / "vocab.txt"), do_lower_case=True, model_max_length=24)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(7)
    config = BertConfig(vocab_size=len(tokenizer), hidden_size=48, num_hidden_layers=3, num_attention_heads=4,
                        intermediate_size=96, max_position_embeddings=64, initializer_range=0.2)
    BertModel(config).save_pretrained(folder)


def embedded(program, folder, texts, *options):
    output = folder.parent / "vectors.npy"
    lines = folder.parent / "lines.txt"
    lines.write_text("\n".join(texts) + "\n")
    subprocess.run([program, "embed", "--model", folder, lines, "--output", output, *options], check=True)
    return np.load(output)


def main(program, work):
    work = pathlib.Path(work) / "sentence_vectors"
    shutil.rmtree(work, ignore_errors=True)
    write_model(work / "bare")
    texts = sentences()
    worst = 0.0
    for number, (pooling, normal) in enumerate([("mean", False), ("mean", True), ("cls", True), ("max", False)]):
        transformer = Transformer(str(work / "bare"))
        modules = [transformer, Pooling(48, pooling_mode=pooling)] + ([Normalize()] if normal else [])
        theirs = work / f"theirs{number}"
        SentenceTransformer(modules=modules, device="cpu").save(str(theirs))
        wanted = SentenceTransformer(str(theirs), device="cpu").encode(texts)
        given = embedded(program, theirs, texts)
        error = np.abs(given - wanted).max() / np.abs(wanted).max()
        print(f"{pooling}{', normalised' if normal else ''}: {error:.1e} of the largest element")
        worst = max(worst, error)
    bare = SentenceTransformer(str(work / "bare"), device="cpu").encode(texts)
    worst = max(worst, np.abs(embedded(program, work / "bare", texts) - bare).max() / np.abs(bare).max())
    print(f"at most {worst:.1e}, wanted 2e-6")
    return 0 if worst <= 2e-6 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
