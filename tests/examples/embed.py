"""embed: lines to vectors, as JSON lines and as .npy; what train --pooling and --freeze-layers leave.

    python3 embed.py PROGRAM WORK_FOLDER
"""

import gzip
import json
import os
import struct
import sys
from pathlib import Path

import program as tool

TRAIN = ["train", "--quiet", "--reviews=100", "--vocab-size=300", "--max-length=16", "--threads=1", "--epochs=1"]
TEXTS = b"a good film\n\nnot a bad film at all\n"


def vectors(output):
    return [json.loads(line) for line in output.splitlines()]


def npy(path):
    """Shape and numbers of a .npy file of fp32."""
    content = path.read_bytes()
    length = struct.unpack("<H", content[8:10])[0]
    header = content[10:10 + length].decode()
    assert "'<f4'" in header, header
    shape = tuple(int(size) for size in header.split("(")[1].split(")")[0].split(",") if size.strip())
    return shape, struct.unpack(f"<{(len(content) - 10 - length) // 4}f", content[10 + length:])


def tensors(path):
    """Names and bytes of a safetensors file."""
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    return {name: content[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]]
            for name, entry in header.items()}


def main():
    program, work = os.path.abspath(sys.argv[1]), tool.fresh_folder(Path(sys.argv[2]).absolute())
    checks = tool.Checks()
    model = work / "model"
    tool.must_run(program, [*TRAIN, f"--output={model}"])

    def embed(*options, text=TEXTS, of=model):
        return vectors(tool.must_run(program, ["embed", f"--model={of}", *options], text=text).stdout)

    found = embed()
    checks.that(len(found) == 3 and {len(vector) for vector in found} == {128}, f"{len(found)} vectors")
    (work / "texts.txt.gz").write_bytes(gzip.compress(TEXTS))
    tool.must_run(program, ["embed", f"--model={model}", f"{work}/texts.txt.gz", f"--output={work}/vectors.npy"])
    shape, numbers = npy(work / "vectors.npy")
    checks.that(shape == (3, 128), f"shape {shape}")
    printed = struct.pack("<384f", *(number for vector in found for number in vector))
    checks.that(struct.pack("<384f", *numbers) == printed, "the file has other numbers")
    checks.that(embed(text=b"a good film\n")[0] == found[0], "a vector depends on other texts")
    checks.that(all(abs(sum(x * x for x in vector) - 1) < 1e-5 for vector in embed("--normalise")), "lengths are not 1")
    checks.that(embed("--pooling=first")[0] != found[0], "--pooling changes nothing")
    checks.that(embed(text=b"") == [], "vectors of nothing")

    def refused(command, options, code, wanted):
        ended = tool.run(program, [*command, *options])
        checks.that(ended.returncode == code and wanted in ended.stderr and ended.stderr.count(b"\n") == 1,
                    f"{options}: {ended.returncode} {ended.stderr}")

    for options, code, wanted in [
            ([f"--model={work}/none"], 1, b"[file.read]"),
            ([], 2, b"--model"),
            ([f"--model={model}", "--pooling=sum"], 2, b"--pooling"),
            ([f"--model={model}", f"--output={work}/none/vectors.npy"], 1, b"[file.write]"),
            ([f"--model={model}", f"{work}/texts.txt.gz", f"--output={work}/texts.txt.gz"], 2, b"--output")]:
        refused(["embed"], options, code, wanted)

    mean = work / "mean"
    tool.must_run(program, [*TRAIN, "--pooling=mean", f"--output={mean}"])
    checks.that(json.loads((mean / "config.json").read_text()).get("soma_pooling") == "mean", "no soma_pooling")
    answers = tool.must_run(program, ["predict", f"--model={mean}"], text=TEXTS).stdout
    checks.that(answers.count(b"\n") == 3, f"answers {answers}")

    frozen = work / "frozen"
    tuned = [option for option in TRAIN if not option.startswith("--vocab-size")]
    tool.must_run(program, [*tuned, f"--pretrained={model}", "--freeze-layers=1", f"--output={frozen}"])
    before, after = tensors(model / "model.safetensors"), tensors(frozen / "model.safetensors")
    for name in before:
        same = "embeddings" in name or "layer.0." in name
        if "key.bias" not in name:  # its gradient is nearly 0
            checks.that((before[name] == after[name]) == same, f"{name}: frozen {same}")
    for options, wanted in [(["--freeze-layers=1"], b"--pretrained"),
                            ([f"--pretrained={model}", "--freeze-layers=9"], b"2 layers"),
                            (["--model-kind=fast", "--pooling=mean"], b"--pooling")]:
        refused([option for option in TRAIN if not option.startswith(("--vocab-size", "--max-length"))], options, 2,
                wanted)
    return checks.finish("embed, pooling and frozen layers")


if __name__ == "__main__":
    sys.exit(main())
