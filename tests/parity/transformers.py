#!/usr/bin/env python3
"""Small BERT classifiers of the transformers package, for transformers.sh.

  transformers.py prepare FOLDER   saves models with random weights, and ids; prints their names
  transformers.py compare FOLDER   compares logits, and loads what soma saved
"""

import pathlib
import sys

# This file has the package's name: its own folder is no place to look for that.
sys.path = [path for path in sys.path if pathlib.Path(path or ".").resolve() != pathlib.Path(__file__).resolve().parent]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from transformers import BertConfig, BertForSequenceClassification  # noqa: E402

LABELS = ["negative", "neither \"so\"", "caf\u00e9"]
CASES = {
    "plain": dict(hidden_act="gelu"),
    "sharded": dict(hidden_act="gelu_new", classifier_dropout=0.3),
    "bf16": dict(hidden_act="relu", type_vocab_size=1),
}
# Logits are near 1. Some hundred additions of fp32, each with an error of 2^-24 of its result, in another order.
MOST = 1e-5


def config(case):
    return BertConfig(vocab_size=200, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96,
                      max_position_embeddings=40, id2label=dict(enumerate(LABELS)),
                      label2id={label: i for i, label in enumerate(LABELS)}, pad_token_id=3, **CASES[case])


def logits(model, folder):
    """Of each sequence alone, so that nothing is padded."""
    rows = [[int(i) for i in line.split()] for line in (folder / "ids.txt").read_text().splitlines()]
    with torch.no_grad():
        return np.concatenate([model(input_ids=torch.tensor([row])).logits.numpy() for row in rows])


def prepare(root):
    for number, case in enumerate(CASES):
        folder = root / case
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(number)
        model = BertForSequenceClassification(config(case)).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                is_scale = "LayerNorm.weight" in name
                parameter.copy_(torch.randn_like(parameter) * (0.1 if parameter.dim() == 1 else 0.15) + is_scale)
            if case == "bf16":
                model = model.bfloat16()
        sizes = {"max_shard_size": "50KB"} if case == "sharded" else {}
        model.save_pretrained(folder / "theirs", **sizes)
        assert (folder / "theirs/model.safetensors.index.json").exists() == (case == "sharded")
        ids = torch.randint(0, 200, (8, 40)).tolist()
        lengths = [1, 2, 7, 16, 17, 31, 39, 40]
        (folder / "ids.txt").write_text("".join(" ".join(map(str, row[:length])) + "\n"
                                                for row, length in zip(ids, lengths)))
        print(case)


def compare(root):
    failed = False
    for case in CASES:
        folder = root / case
        theirs = BertForSequenceClassification.from_pretrained(folder / "theirs", dtype=torch.float32).eval()
        wanted, given = logits(theirs, folder), np.load(folder / "logits.npy")
        assert wanted.shape == given.shape and np.abs(wanted).max() > 0.1, wanted
        loaded = np.abs(wanted - given).max()

        ours, notes = BertForSequenceClassification.from_pretrained(folder / "ours", output_loading_info=True,
                                                                   dtype=torch.float32)
        names = {key: sorted(value) for key, value in notes.items() if value}
        saved = np.abs(logits(ours.eval(), folder) - given).max()
        same = all(torch.equal(a, b) for a, b in zip(theirs.state_dict().values(), ours.state_dict().values()))
        fields = [key for key in config(case).to_dict()
                  if key not in ("dtype", "torch_dtype", "architectures", "transformers_version", "_name_or_path")
                  and getattr(ours.config, key, None) != getattr(theirs.config, key, None)]
        # A file of the package may leave problem_type open where a text has one label of several; soma's files name it.
        if (theirs.config.problem_type, ours.config.problem_type) == (None, "single_label_classification"):
            fields = [key for key in fields if key != "problem_type"]
        print(f"{case}: loaded here {loaded:.2e}, saved here {saved:.2e} (most {MOST:g}); weights "
              f"{'the same' if same else 'DIFFER'}; names amiss: {names or 'none'}; settings that differ: "
              f"{fields or 'none'}")
        failed |= bool(loaded > MOST or saved > MOST or names or fields or not same)
    sys.exit(failed)


if __name__ == "__main__":
    {"prepare": prepare, "compare": compare}[sys.argv[1]](pathlib.Path(sys.argv[2]))
