#!/usr/bin/env python3
"""language_model from outside: trains, measures, resumes, saves, and refuses.

Usage: command.py PROGRAM WORK
"""

import json
import math
import pathlib
import shutil
import subprocess
import sys

CASES = pathlib.Path(__file__).parents[2] / "models" / "decoders"
TEXTS = ["the train is late again", "A café at nine!", "the people of platform 3 wait", "on Monday and on Tuesday",
         "the café opens at nine", "we wait at the platform", "Yours, the people", "it was late"]
problems = 0


def check(name, true, shown=""):
    global problems
    if not true:
        problems += 1
        print(f"FAILED {name}: {shown}")


def run(*words, code=0):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=300)
    check(" ".join(map(str, words)), done.returncode == code, f"exit code {done.returncode}, {done.stderr[-500:]}")
    return done


def weights_hash(done):
    return next((line.split()[-1] for line in done.stdout.splitlines() if "weights hash" in line), None)


def refused(name, *words, code=1):
    done = run(*words, code=code)
    check(f"{words} names the reason", name in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr)


program, work = sys.argv[1], pathlib.Path(sys.argv[2])
shutil.rmtree(work, ignore_errors=True)
work.mkdir(parents=True)
gpt2, llama = CASES / "texts_gpt2", CASES / "texts_llama"
plain, lines, table = work / "letters.txt", work / "letters.jsonl", work / "letters.csv"
plain.write_text("\n---\n".join(TEXTS))
lines.write_text("".join(json.dumps({"text": text + "\n"}) + "\n" for text in TEXTS[:-1]) + json.dumps({"text": TEXTS[-1]}))
table.write_text("text\n" + "".join(f'"{text}"\n' for text in TEXTS))
pairs = work / "pairs.jsonl"
pairs.write_text("".join(json.dumps({"prompt": text[:7], "answer": text[7:]}) + "\n" for text in TEXTS))
quick = ("--epochs", 2, "--batch-size", 4, "--learning-rate", "1e-2", "--quiet", "--threads", 1)

# The same documents from each kind of file, and the same bits.
first = run("train", "--model", gpt2, "--data", plain, "--divider=---", *quick, "--output", work / "tuned",
            "--log-json", work / "log.jsonl", "--plot", work / "run.svg")
again = run("train", "--model", gpt2, "--data", lines, *quick)
check("plain text and JSON lines", weights_hash(first) is not None and weights_hash(first) == weights_hash(again))
events = [json.loads(line) for line in (work / "log.jsonl").read_text().splitlines()]
check("the log ends", events[-1]["event"] == "done" and events[-1]["weights_hash"] == weights_hash(first), events[-1])
check("files of texts are copied", all((work / "tuned" / name).read_bytes() == (gpt2 / name).read_bytes() for name in (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")))


def measured(*words):
    return json.loads(run("evaluate", "--json", *words).stdout)


before = measured("--model", gpt2, "--data", table)
after = measured("--model", work / "tuned", "--data", table)
check("training helps", after["perplexity"] < before["perplexity"], f"{before} {after}")
check("perplexity", abs(after["perplexity"] / math.exp(after["loss"]) - 1) < 1e-5, after)
one = measured("--model", gpt2, "--data", table, "--batch-size", 1)
check("batches", abs(one["perplexity"] / before["perplexity"] - 1) < 1e-12, f"{one} {before}")
short = measured("--model", gpt2, "--data", table, "--length", 6, "--stride", 2)
check("windows", short["tokens"] == before["tokens"] and short["sequences"] > len(TEXTS), short)
answers = measured("--model", llama, "--data", pairs)
everything = measured("--model", llama, "--data", pairs, "--trained", "all")
check("answers alone", answers["tokens"] < everything["tokens"], f"{answers} {everything}")

# Interrupted and resumed.
whole = run("train", "--model", llama, "--data", pairs, *quick, "--schedule", "constant")
run("train", "--model", llama, "--data", pairs, *quick, "--schedule", "constant", "--max-steps", 1, "--checkpoint",
    work / "runs")
resumed = run("train", "--model", llama, "--data", pairs, *quick, "--schedule", "constant", "--checkpoint",
              work / "runs", "--resume")
check("a resumed run", weights_hash(whole) == weights_hash(resumed), resumed.stdout)

# Parameters that step early.
early = ("train", "--model", gpt2, "--data", lines, *quick, "--clip", 0)
check("early steps", weights_hash(run(*early)) == weights_hash(run(*early, "--step-early")))
refused("step_early", *early[:-1], 1, "--step-early")

# Types and files of weights.
run("train", "--model", llama, "--data", plain, *quick, "--precision", "bf16_sr", "--save-dtype", "bf16", "--shard-bytes",
    "8KiB", "--output", work / "small")
names = sorted(path.name for path in (work / "small").glob("model*"))
index = json.loads((work / "small" / "model.safetensors.index.json").read_text())
check("shards", len(names) > 2 and set(index["weight_map"].values()) == set(names[:-1]), names)
check("describe", "bf16" in run("describe", "--model", work / "small").stdout)

# Batches are cut, and models (by ranks: the C++ tests).
refused("[train.options]", "train", "--model", gpt2, "--data", plain, "--partitions", 2, "--output", work / "cut")
check("micro-batches of a tied model", weights_hash(run(
    "train", "--model", gpt2, "--data", lines, *quick, "--microbatches", 2)) == weights_hash(again))
check("micro-batches", weights_hash(run("train", "--model", llama, "--data", pairs, *quick, "--schedule", "constant",
                                        "--microbatches", 2)) == weights_hash(whole))

# Adapters: a folder of few numbers, the same bits with recomputation, merged weights that measure alike.
lora = ("--lora", 2, "--lora-alpha", 8, "--lora-dropout", 0.1, "--lora-targets", "q_proj", "v_proj")
tuned = run("train", "--model", llama, "--data", plain, "--divider=---", *quick, *lora, "--output", work / "adapter")
check("an adapter's files", sorted(path.name for path in (work / "adapter").iterdir()) == [
    "adapter_config.json", "adapter_model.safetensors"])
config = json.loads((work / "adapter" / "adapter_config.json").read_text())
check("its configuration", (config["r"], config["lora_alpha"], config["target_modules"]) == (2, 8, ["q_proj", "v_proj"]) and
      pathlib.Path(config["base_model_name_or_path"]) == llama, config)
check("recomputed adapters", weights_hash(tuned) == weights_hash(run(
    "train", "--model", llama, "--data", plain, "--divider=---", *quick, *lora, "--recompute")))
check("describe adapters", "adapter " in run("describe", "--model", llama, "--adapter", work / "adapter").stdout)
check("merge tells the rounding", "norm" in run("merge", "--model", llama, "--adapter", work / "adapter", "--output",
                                                work / "merged").stdout)
base, apart, merged = (measured(*words, "--data", table) for words in (
    ("--model", llama), ("--model", llama, "--adapter", work / "adapter"), ("--model", work / "merged")))
check("an adapter helps", apart["loss"] < base["loss"], f"{base} {apart}")
check("merged weights", abs(merged["loss"] / apart["loss"] - 1) < 1e-6, f"{apart} {merged}")
further = run("train", "--model", llama, "--adapter", work / "adapter", "--data", plain, "--divider=---", *quick, "--output",
              work / "further")
check("an adapter is trained further", weights_hash(further) != weights_hash(tuned))
stages = run("train", "--model", llama, "--data", plain, "--divider=---", *quick, *lora, "--microbatches", 2, "--output",
             work / "staged")
check("micro-batches of adapters", weights_hash(stages) == weights_hash(tuned) and
      (work / "staged" / "adapter_model.safetensors").read_bytes() == (
          work / "adapter" / "adapter_model.safetensors").read_bytes())

# Texts: alone and together the same, by an adapter those of the merged weights; draws follow the seed.
def written(*words):
    return [json.loads(line) for line in run("generate", "--json", "--quiet", "--max-new", 12, "--threads", 1,
                                             *words).stdout.splitlines()]


prompts = work / "prompts.txt"
prompts.write_text("".join(text[:9] + "\n" for text in TEXTS))
together = written("--model", llama, "--prompts", prompts)
check("a text for each prompt", [text["prompt"] for text in together] == [text[:9] for text in TEXTS], together)
check("alone and together", written("--model", llama, "--prompt", TEXTS[2][:9])[0]["ids"] == together[2]["ids"] and
      written("--model", llama, "--prompts", prompts, "--batch-size", 3, "--part", 2, "--packed") == together)
shown = run("generate", "--model", llama, "--prompt", TEXTS[0][:9], "--max-new", 12)
check("a text is shown", shown.stdout == together[0]["text"] + "\n" and "tokens a second" in shown.stderr, shown)
by_adapter = written("--model", llama, "--adapter", work / "adapter", "--prompts", prompts)
check("adapters write", by_adapter == written("--model", work / "merged", "--prompts", prompts) and by_adapter != together,
      by_adapter)
drawn = ("--model", llama, "--prompts", prompts, "--temperature", 1)
check("draws", written(*drawn, "--seed", 1) == written(*drawn, "--seed", 1) != written(*drawn, "--seed", 2))
refused("--memory-limit", "generate", "--model", llama, "--prompt", "the", "--memory-limit", 1000, code=2)
refused("--temperature", "generate", "--model", llama, "--prompt", "the", "--top-k", 3, code=2)
refused("no prompt", "generate", "--model", llama, code=2)

full, small = (json.loads(run("plan", "--json", "--model", gpt2, "--data", lines, "--threads", 1, *words).stdout)["rows"]
               for words in ((), ("--lora", 2)))
check("plan has rows with recomputation", {row["recompute"] for row in full} == {True, False}, full)
cut = [row for row in json.loads(run("plan", "--json", "--model", gpt2, "--data", lines, "--threads", 1, "--ranks", 2,
                                     "--lora", 2).stdout)["rows"] if row["partitions"] == 2 and not row["reason"]]
table = 305 * 16 * 4  # of tokens, which both stages have
check("a tied table is in two stages", cut and all(
    sum(stage["weights"] for stage in row["stages"]) > small[0]["stages"][0]["weights"] + table for row in cut), cut)
check("adapters have fewer moments", all(a["stages"][0]["moments"] < b["stages"][0]["moments"]
                                         for a, b in zip(small, full)), (small, full))
refused("excludes", "train", "--model", llama, "--adapter", work / "adapter", "--data", plain, *lora, code=2)
refused("--lora", "train", "--model", llama, "--data", plain, "--lora-alpha", 8, code=2)
refused("[operator.value]", "train", "--model", gpt2, "--data", plain, *quick, "--lora", 2, "--lora-targets", "q_proj")
refused("no linear layer", "train", "--model", gpt2, "--data", plain, *quick, "--lora", 2, "--lora-targets", "wte")
refused("--save-dtype", "train", "--model", llama, "--data", plain, *quick, *lora, "--save-dtype", "bf16", "--output",
        work / "adapter", code=2)
refused("[state.extra_name]", "evaluate", "--model", gpt2, "--adapter", work / "adapter", "--data", plain)

refused("[file.read]", "evaluate", "--model", work, "--data", plain)
refused("length", "evaluate", "--model", gpt2, "--data", plain, "--length", 33)
refused("--stride", "evaluate", "--model", gpt2, "--data", plain, "--length", 8, "--stride", 9, code=2)
bad = work / "bad.jsonl"
bad.write_text('{"text": "a b"}\n{"words": "c"}\n')
refused("line 2", "train", "--model", gpt2, "--data", bad, *quick)
bad.write_text('{"prompt": "a b", "answer": ""}\n')
refused("[text.row_empty]", "train", "--model", gpt2, "--data", bad, *quick)
refused("--evaluate-every", "train", "--model", gpt2, "--data", plain, *quick, "--evaluate-every", 1, code=2)
refused("is no option", "train", "--modell", gpt2, code=2)
print("all is well" if problems == 0 else f"{problems} problem(s)")
sys.exit(problems != 0)
