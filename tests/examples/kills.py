"""Trainings of every kind, killed at any moment and started again, end with the files of one that was left alone.

    python3 kills.py PROGRAM WORK_FOLDER [--kills N] [--only KIND ...] [--seed S] [--mpirun MPIRUN]

PROGRAM is bert_classifier; the other programs stand beside it. A kind that writes checkpoints goes on from them; a fit
without checkpoints begins again. At every moment the folder of the model is absent or whole.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import program as tool

sys.path.append(str(Path(__file__).resolve().parents[1] / "parallel"))
import launched

DECODERS = Path(__file__).resolve().parents[1] / "models" / "decoders"
TEXTS = ["the train is late again", "A café at nine!", "the people of platform 3 wait", "on Monday and on Tuesday",
         "the café opens at nine", "we wait at the platform", "Yours, the people", "it was late"] * 4


def points(count):
    """Points in the form of files for very many classes: two features and a label each."""
    lines = [f"{count} 50 40"]
    lines += [f"{i % 40} {i % 25}:1 {25 + 7 * i % 25}:0.5" for i in range(count)]
    return "\n".join(lines) + "\n"


def kinds(program, mpirun):
    """By name: the words of a run in the folder {}, and whether it goes on from checkpoints."""
    extreme, language = (str(Path(program).with_name(name)) for name in ("extreme_classifier", "language_model"))
    kept = ["--checkpoint={}/steps", "--checkpoint-every=3", "--resume"]
    output = ["--output={}/model"]
    letters = ["--data={}/letters.txt", "--epochs=4", "--batch-size=4", "--learning-rate=1e-2", "--quiet", "--threads=1"]
    llama, gpt2 = f"--model={DECODERS}/texts_llama", f"--model={DECODERS}/texts_gpt2"
    found = {
        "classifier": [program, *tool.THIRTY_STEPS, *kept, *output],
        "bf16_sr": [program, *tool.THIRTY_STEPS, "--precision=bf16_sr", "--average=0.9", "--keep-best", "--evaluate-every=5",
                    *kept, *output],
        "fast": [program, "train", "--model-kind=fast", "--data={}/rows.tsv", "--quiet", *output],
        "linear": [extreme, "train", "--data={}/points.xmc", "--kind=linear", *output],
        "tree": [extreme, "train", "--data={}/points.xmc", "--kind=tree", *output],
        "network": [extreme, "train", "--data={}/points.xmc", "--kind=network", "--epochs=3", *kept, *output],
        "decoder": [language, "train", gpt2, *letters, *kept, *output],
        "lora": [language, "train", llama, *letters, "--lora=2", "--lora-dropout=0.1", *kept, *output],
    }
    if mpirun:
        words = [*tool.THIRTY_STEPS, "--threads=1", *kept, *output]
        for name, more in {"ranks": ["--shard-optimizer"], "pipeline": ["--partitions=2", "--microbatches=2"]}.items():
            found[name] = launched.command(program, 2, [*words, *more], mpirun)
    return found


def prepared(folder):
    tool.fresh_folder(folder)
    (folder / "rows.tsv").write_bytes(tool.rows(400))
    (folder / "letters.txt").write_text("\n\n".join(TEXTS))
    (folder / "points.xmc").write_text(points(400))
    return folder


def start(words, folder):
    return tool.Process([word.format(folder) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                        env=launched.environment())


def finish(process):
    _, error = process.communicate(timeout=300)
    return process.returncode, error.decode(errors="replace")[-400:]


def numbers(folder):
    """The hashes of the files with a model's numbers; nothing where there is no model."""
    return {name: value for name, value in tool.contents(folder / "model").items() if name.endswith(".safetensors")}


def check_kind(name, words, work, kills, draw, checks):
    begin = time.monotonic()
    code, error = finish(start(words, prepared(work / name)))
    seconds = time.monotonic() - begin
    wanted = numbers(work / name)
    checks.that(code == 0 and wanted, f"{name}, left alone: {code}, {error}")
    if code != 0 or not wanted:
        return
    folder, killed, ended = prepared(work / name), 0, 0
    while killed < kills:
        process = start(words, folder)
        # Half of them anywhere, half near the end, where the model is written.
        share = draw.random() if draw.random() < 0.5 else 0.8 + 0.3 * draw.random()
        time.sleep(share * seconds)
        if process.poll() is None:
            tool.end_processes()  # mpirun's children are killed as it is
            killed += 1
            process.communicate()
            left = numbers(folder)
            checks.that(left in ({}, wanted), f"{name}: half a model after {killed} kills: {sorted(left)}")
            torn = [path.name for path in folder.rglob("*.damaged")]
            checks.that(not torn, f"{name}: torn after {killed} kills: {torn}")
            if left:
                prepared(folder)
        else:
            code, error = finish(process)
            ended += 1
            checks.that(code == 0 and numbers(folder) == wanted, f"{name}: after {killed} kills other numbers, {code}, {error}")
            prepared(folder)
    code, error = finish(start(words, folder))
    checks.that(code == 0 and numbers(folder) == wanted, f"{name}: after {killed} kills other numbers, {code}, {error}")
    left = [path.name for path in folder.rglob("*.partial")]
    checks.that(not left, f"{name}: left over: {left}")
    print(f"{name}: {killed} kills, {ended + 1} ends, {seconds:.1f} s alone", flush=True)
    shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("work")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mpirun", default=shutil.which("mpirun"))
    given = parser.parse_args()
    checks, draw = tool.Checks(), random.Random(given.seed)
    chosen = {name: words for name, words in kinds(os.path.abspath(given.program), given.mpirun).items()
              if not given.only or name in given.only}
    if not given.mpirun:
        print("no mpirun: ranks and pipelines are not killed")
    for name, words in chosen.items():
        check_kind(name, words, Path(given.work).absolute(), -(-given.kills // len(chosen)), draw, checks)
    return checks.finish(f"kills, seed {given.seed}")


if __name__ == "__main__":
    sys.exit(main())
