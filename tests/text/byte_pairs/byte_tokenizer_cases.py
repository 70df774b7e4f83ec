#!/usr/bin/env python3
"""Byte-level tokenizers of each kind, made and run by the package tokenizers.

    python3 -m venv venv && venv/bin/pip install tokenizers
    venv/bin/python -B tests/text/byte_pairs/byte_tokenizer_cases.py > tests/text/byte_pairs/byte_tokenizer_cases.inc
    venv/bin/python -B tests/text/byte_pairs/byte_tokenizer_cases.py --compare PROGRAM WORK [--texts N] [--folders DIR...]

The first writes what byte_tokenizer_test.cpp compares with: a vocabulary for bytes, one for characters, and hashes of the ids
of texts for each kind. The second compares ids, offsets and decoded texts of random texts with those of PROGRAM
(tokenize_bytes), for the kinds here and for tokenizer.json files of other folders. Made with tokenizers 0.23.3.
"""

import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys

from tokenizers import AddedToken, Regex, Tokenizer, __version__, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import hard_texts  # noqa: E402

SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}NUMBERS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
MARK = "\u2581"
POOL = ["'s", "'t", "'re", "'VE", "'ll", "'D", "'M", "'\u017f", " ", "  ", "   ", "\n", "\r\n", "\n\n", "\t", "\u00a0", "\u3000", "\u0085",
        "\u180e", "\u200b", "\u2028", *"abcXYZéßñ.,!?-_'\"()#@019", "日本", "한국어", "กข", "\u0938\u094d\u0924\u0947", "🙂", "👩\u200d👩\u200d👧",
        "٣", "²", "½", "Ⅷ", "e\u0301", "\u0301\u0327", "a\u0328\u0301", "\u1100\u1161\u11a8", "\u0344", "\u212b", "ﬁ", "🇩", "\U00011f50", "\U00016ff4",
        "ǆ", "\u0958", "\u2adc", "\U0001d15e", "\u1e9b\u0323", "<|end|>", " <tool>\n", "the", "ing", " of", "tokens", "\u0300" * 3]


def random_text(number):
    """A text of what is hard to cut, valid UTF-8."""
    draw = random.Random(f"bytes/{number}")
    if number % 4 == 3:
        return hard_texts.generated("bytes", number, lambda _: True).decode(errors="replace")
    return "".join(draw.choice(POOL) for _ in range(draw.randint(1, 40)))


def corpus():
    yield from hard_texts.SAMPLES
    for number in range(400):
        yield random_text(number)
    for path in ("docs/design.md", "docs/numerics.md"):
        yield from (pathlib.Path(__file__).parents[3] / path).read_text().splitlines()[:200]


def byte_level(**settings):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, **settings)


def split(numbers):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT.replace("NUMBERS", numbers)), "isolated"),
                                    byte_level(use_regex=False)])


def trained(characters):
    """The model of a vocabulary of bytes, or of characters with pieces for bytes."""
    if characters:
        tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
        tokenizer.normalizer = normalizers.Replace(" ", MARK)
        special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
        trainer = trainers.BpeTrainer(vocab_size=560, special_tokens=special, limit_alphabet=70, show_progress=False)
        tokenizer.train_from_iterator([text for text in corpus() if len(text) < 200], trainer)
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = split("")
        trainer = trainers.BpeTrainer(vocab_size=560, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
        tokenizer.train_from_iterator(corpus(), trainer)
    return json.loads(tokenizer.to_str())["model"]


def stage(part):
    return None if part is None else json.loads(part.__getstate__())


def kinds():
    """name -> tokenizer.json, as an object."""
    found = {}
    of_bytes, of_characters = trained(False), trained(True)
    size = len(of_bytes["vocab"])
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    added = [{"id": size, "content": "<|end|>", **flags, "special": True},
             {"id": size + 1, "content": "<tool>", **flags, "lstrip": True, "rstrip": True},
             {"id": size + 2, "content": "tokens", **flags, "normalized": True}]
    marks = [{"id": number, "content": token, **flags, "special": True} for number, token in enumerate(("<unk>", "<s>", "</s>"))]
    begin = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    both = processors.TemplateProcessing(single="<|end|> $A <|end|>", pair="$A $B", special_tokens=[("<|end|>", size)])
    spaces = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])

    def add(name, model, normalizer, pre, post, decoder, tokens):
        found[name] = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": stage(normalizer),
                       "pre_tokenizer": stage(pre), "post_processor": stage(post), "decoder": stage(decoder), "model": model}

    as_texts = {**of_bytes, "merges": [" ".join(pair) for pair in of_bytes["merges"]]}
    add("gpt2", as_texts, None, byte_level(), processors.ByteLevel(trim_offsets=False), decoders.ByteLevel(), added)
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level()])
    add("digits_gpt2", of_bytes, None, digits, None, decoders.ByteLevel(), added)
    add("qwen2", of_bytes, normalizers.NFC(), split(""), processors.ByteLevel(trim_offsets=False), decoders.ByteLevel(), added)
    add("llama3", {**of_bytes, "ignore_merges": True}, None, split("{1,3}"), processors.Sequence([processors.ByteLevel(trim_offsets=False), both]),
        decoders.ByteLevel(), added)
    prepend = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    add("sentencepiece", of_characters, prepend, None, begin, spaces, marks)
    add("metaspace_first", of_characters, None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), begin, spaces, marks)
    add("metaspace_words", of_characters, None, pre_tokenizers.Metaspace(prepend_scheme="always", split=True), begin, spaces, marks)
    return found


def fnv(numbers):
    state = 0xCBF29CE484222325
    for number in numbers:
        for byte in struct.pack("<I", number):
            state = ((state ^ byte) * 0x100000001B3) & (1 << 64) - 1
    return state


def literal(data):
    return '"' + "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in data) + '"'


def pieces_of(text):
    """Raw string literals: compilers need not take long ones."""
    for start in range(0, len(text), 8000):
        yield f'R"json({text[start:start + 8000]})json"'


def write():
    print(f"// Written by byte_tokenizer_cases.py with tokenizers {__version__}.")
    tokenizers = {}
    models_written = {}
    for name, content in kinds().items():
        tokenizers[name] = Tokenizer.from_str(json.dumps(content))
        model = json.dumps({key: content["model"][key] for key in ("vocab", "merges")}, ensure_ascii=True, separators=(",", ":"))
        if model not in models_written:
            models_written[model] = f"model_{len(models_written)}"
            print(f"inline constexpr std::string_view {models_written[model]} =")
            print("\n".join("    " + part for part in pieces_of(model)) + ";")
        rest = {**content, "model": {key: value for key, value in content["model"].items() if key not in ("vocab", "merges")}}
        print(f"inline constexpr std::string_view {name}_stages =")
        print("\n".join("    " + part for part in pieces_of(json.dumps(rest, ensure_ascii=True, separators=(",", ":")))) + ";")
        print(f"inline constexpr Kind {name}{{\"{name}\", {name}_stages, {models_written[model]}}};")
    print("inline constexpr const Kind* all_kinds[] = {" + ", ".join(f"&{name}" for name in tokenizers) + "};")
    texts = [text for text in [*hard_texts.SAMPLES, *(random_text(1000 + number) for number in range(120))] if len(text) < 400]
    print("inline constexpr Case cases[] = {")
    for text in texts:
        hashes = ", ".join(f"0x{fnv(tokenizer.encode(text).ids):016x}" for tokenizer in tokenizers.values())
        print(f"    {{std::string_view({literal(text.encode())}, {len(text.encode())}), {{{hashes}}}}},")
    print("};")


def snapped(data, begin, end):
    """The offsets of whole characters, as the package gives them."""
    while 0 < begin < len(data) and data[begin] & 0xC0 == 0x80:
        begin -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return begin, end


def compare(options):
    work = pathlib.Path(options.work)
    folders = {}
    for name, content in kinds().items():
        folders[name] = work / name
        folders[name].mkdir(parents=True, exist_ok=True)
        (folders[name] / "tokenizer.json").write_text(json.dumps(content))
    folders.update({folder: pathlib.Path(folder) for folder in options.folders})
    texts = [random_text(number) for number in range(options.texts)]
    given = b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in texts)
    wrong = 0
    for name, folder in folders.items():
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        lines = subprocess.run([options.program, folder], input=given, stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
        # Composed characters and the mark before a text have offsets of their own here.
        exact = tokenizer.normalizer is None and "Metaspace" not in str(tokenizer.pre_tokenizer)
        seen = 0
        for text, line in zip(texts, lines, strict=True):
            tokens, decoded = line.split("|")
            rows = [tuple(map(int, token.split(":"))) for token in tokens.split()]
            encoding, data = tokenizer.encode(text), text.encode()
            offsets = [(len(text[:begin].encode()), len(text[:end].encode())) for begin, end in encoding.offsets]
            same = [row[0] for row in rows] == encoding.ids
            if exact:
                same = same and [snapped(data, *row[1:]) for row in rows] == offsets
            same = same and bytes.fromhex(decoded.strip()).decode() == tokenizer.decode(encoding.ids)
            if not same and seen == 0:
                print(f"{name}: {ascii(text)}\n  wanted {encoding.ids} {offsets} {ascii(tokenizer.decode(encoding.ids))}\n  got {line}")
            seen += not same
        print(f"{name}: {seen} of {len(texts)} texts differ")
        wrong += seen
    sys.exit(wrong != 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", dest="program")
    parser.add_argument("work", nargs="?")
    parser.add_argument("--texts", type=int, default=20000)
    parser.add_argument("--folders", nargs="*", default=[])
    options = parser.parse_args()
    if options.program is None:
        write()
    elif options.work is None:
        parser.error("--compare needs a folder to work in")
    else:
        compare(options)


if __name__ == "__main__":
    main()
