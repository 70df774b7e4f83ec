#!/usr/bin/env python3
"""Writes what classes of transformers make of a folder's tokenizer: tokenizer_classes.inc.

    python3 -m venv four && four/bin/pip install 'transformers<5'
    python3 -m venv five && five/bin/pip install 'transformers>=5'
    python3 -B tests/text/tokenizer_classes.py four/bin/python five/bin/python

Each line has a class, the rest of the folder, and for each setting of tokenizer_config.json in SETTINGS what the tokenizer
then does, in version 4 and in version 5. Made with transformers 4.57.6 and 5.24.0.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

NAMES = ["Bert", "DistilBert", "Electra", "MobileBert", "ConvBert", "Lxmert", "RetriBert", "SqueezeBert", "LayoutLM",
         "DPRReader", "DPRQuestionEncoder", "DPRContextEncoder"]
CLASSES = [name + ending for name in NAMES for ending in ("Tokenizer", "TokenizerFast")] + [
    "PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend", ""]
SETTINGS = ["", '"do_lower_case":true', '"do_lower_case":false', '"strip_accents":true', '"strip_accents":false',
            '"strip_accents":null', '"tokenize_chinese_chars":true', '"tokenize_chinese_chars":false',
            '"clean_text":false', '"wordpieces_prefix":"@@"']
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "A", "e", "é", "ab", "b", "##c", "@@c", "漢", "字", "##字",
          "@@字", "hello"]


def whole(normalizer, prefix="##", longest=100):
    """A tokenizer.json."""
    added = [{"id": i, "content": PIECES[i], "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i in range(5)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": normalizer,
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
            "decoder": {"type": "WordPiece", "prefix": prefix, "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": prefix,
                      "max_input_chars_per_word": longest, "vocab": {piece: i for i, piece in enumerate(PIECES)}}}


def bert(lowercase, strip, chinese, clean):
    return {"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": chinese, "strip_accents": strip,
            "lowercase": lowercase}


BASES = {
    "vocab": None,
    "usual": whole(bert(True, None, True, True)),
    "other": whole(bert(False, True, False, False)),
    "parts": whole({"type": "Sequence", "normalizers": [bert(False, False, False, False), {"type": "NFD"},
                                                        {"type": "StripAccents"}]}),
    "model": whole(bert(True, None, True, True), "@@", 3),
}


def observe(folder):
    """l: lower case, s: without accents, c: ideographs alone, t: cleaned, p: the prefix ##, m: words of more than 3."""
    from transformers import AutoTokenizer
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        def gives(text, *tokens):
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            return tokenizer.convert_ids_to_tokens(ids) == list(tokens)
        found = {"l": gives("A", "a"), "s": gives("é", "e"), "c": gives("漢字", "漢", "字"), "t": gives("a\u200db", "ab"),
                 "p": gives("bc", "b", "##c"), "m": gives("hello", "hello")}
    except Exception:  # whatever a version has against a folder
        return "none"
    return "".join(letter if is_so else "-" for letter, is_so in found.items())


def rows():
    """One version's observations, as lines of JSON."""
    import warnings
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for name in CLASSES:
            for base, content in BASES.items():
                found = []
                for setting in SETTINGS:
                    for path in Path(folder).iterdir():
                        path.unlink()
                    (Path(folder) / "vocab.txt").write_text("".join(piece + "\n" for piece in PIECES), encoding="utf-8")
                    (Path(folder) / "config.json").write_text('{"model_type": "bert"}')
                    if content:
                        (Path(folder) / "tokenizer.json").write_text(json.dumps(content))
                    settings = ([f'"tokenizer_class":"{name}"'] if name else []) + ([setting] if setting else [])
                    if settings:
                        (Path(folder) / "tokenizer_config.json").write_text("{" + ",".join(settings) + "}")
                    found.append(observe(folder))
                print(json.dumps([name, base, found]))


def main():
    os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    if len(sys.argv) == 1:
        return rows()
    four, five = ([json.loads(line) for line in
                   subprocess.run([python, "-B", __file__], stdout=subprocess.PIPE, check=True).stdout.splitlines()]
                  for python in sys.argv[1:])
    out = ["// Written by tokenizer_classes.py with transformers 4.57.6 and 5.24.0.",
           "inline constexpr const char* stored_settings[] = {"]
    out += [f"    {json.dumps(setting)}," for setting in SETTINGS]
    out += ["};", "inline const std::map<std::string, std::string> stored_bases = {"]
    out += [f'    {{"{base}", R"raw({json.dumps(content) if content else ""})raw"}},' for base, content in BASES.items()]
    out += ["};", "inline constexpr StoredClass stored_classes[] = {"]
    for (name, base, found), (_, _, later) in zip(four, five):
        out.append(f'    {{"{name}", "{base}", "{" ".join(found)}", "{" ".join(later)}"}},')
    (Path(__file__).parent / "tokenizer_classes.inc").write_text("\n".join(out + ["};", ""]), encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
