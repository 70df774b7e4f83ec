"""embed: lines to vectors, as JSON lines and as .npy; what train --pooling and --freeze-layers leave.

    python3 embed.py PROGRAM WORK_FOLDER
"""

import gzip
import json
import os
import shutil
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
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


def check_serve(program, model, encoder, checks):
    """serve with an encoder's folder answers what embed prints of it, in every type."""
    shutil.copytree(model, encoder)
    (encoder / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]))
    (encoder / "1_Pooling").mkdir()
    (encoder / "1_Pooling" / "config.json").write_text(json.dumps(
        {"word_embedding_dimension": 128, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False,
         "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False}))
    printed = tool.must_run(program, ["embed", f"--model={encoder}", "--threads=1"], text=TEXTS).stdout.decode()
    texts = [line.decode() for line in TEXTS.splitlines()]
    with tool.Process([program, "serve", f"--model={encoder}", "--port=0", "--threads=1"],
                      stdout=subprocess.PIPE, env=tool.environment()) as server:
        address = server.stdout.readline().decode().split()[-1]

        def ask(kind, body):
            request = urllib.request.Request(address + "/invocations", body, {"Content-Type": kind})
            for _ in range(200):
                try:
                    with urllib.request.urlopen(request, timeout=30) as answer:
                        return answer.status, answer.read().decode()
                except urllib.error.HTTPError as error:
                    if error.code != 503:  # the model is being loaded
                        return error.code, error.read().decode()
                    time.sleep(0.1)
            return 503, ""

        status, plain = ask("text/plain", TEXTS)
        checks.that(status == 200 and plain == printed, f"serve answers other vectors than embed: {status}")
        status, answer = ask("application/json", json.dumps({"inputs": texts}).encode())
        checks.that(status == 200 and json.loads(answer)["vectors"] == vectors(printed), f"JSON: {status} {answer[:200]}")
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
        status, answer = ask("application/jsonlines", lines)
        checks.that(status == 200 and vectors(answer) == vectors(printed), f"JSON lines: {status} {answer[:200]}")
        status, answer = ask("text/csv", b"a good film\n")
        checks.that(status == 200 and [float(x) for x in answer.split(",")] == vectors(printed)[0], f"CSV: {status}")
        status, answer = ask("application/json", b'{"text": "a", "text_pair": "b"}')
        checks.that(status == 400 and json.loads(answer)["id"] == "serve.body", f"a pair: {status} {answer}")
        server.terminate()
        server.wait(60)


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

    check_serve(program, model, work / "encoder", checks)

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
