#!/usr/bin/env python3
"""Makes adapters of the small random decoders of make_cases.py, as PEFT saves them, with float64 losses and gradients.

Usage: make_adapters.py FOLDER [CASE...]   (needs torch, transformers, peft and safetensors; reads and writes what the tests read)

Each case is a folder adapter_NAME with adapter_config.json and adapter_model.safetensors, and expected.safetensors: of the
documents of the base's expected.safetensors the mean loss, the logits of the first document, and the gradients of the
adapters' matrices under their names in the file. All in float64, rounded once: numbers of the loss as a pair of floats.
"""

import json
import os
import pathlib
import sys

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from make_cases import pair, total_loss

CASES = {  # name: base, rank, alpha, other settings
    "gpt2": ("gpt2", 4, 16, dict(target_modules=["c_attn"], fan_in_fan_out=True)),
    "gpt2_all": ("gpt2", 2, 3, dict(target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)),
    "llama": ("llama_k2", 4, 8, dict(target_modules=["q_proj", "v_proj"])),
    "llama_all": ("llama_k1", 3, 6, dict(target_modules="all-linear", use_rslora=True)),
    "llama_one": ("llama_k4", 1, 2, dict(target_modules=["o_proj", "k_proj", "up_proj"])),
}


def make(name, folder):
    base, rank, alpha, settings = CASES[name]
    path = folder / f"adapter_{name}"
    model = AutoModelForCausalLM.from_pretrained(folder / base, attn_implementation="eager", dtype=torch.float32)
    model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=0.0, task_type="CAUSAL_LM", **settings))
    generator = torch.Generator().manual_seed(100 + sorted(CASES).index(name))
    for key, parameter in model.named_parameters():
        if "lora_" in key:
            parameter.data.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    model.peft_config["default"].base_model_name_or_path = base
    model.save_pretrained(path)
    (path / "README.md").unlink(missing_ok=True)
    config = json.loads((path / "adapter_config.json").read_text())
    if isinstance(config["target_modules"], list):
        config["target_modules"].sort()  # PEFT writes a set
    (path / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    model = model.double().eval()
    case = load_file(folder / base / "expected.safetensors")
    lengths = case["lengths"].tolist()
    documents = [part.tolist() for part in case["ids"].long().split(lengths)]
    targets = [part.tolist() for part in case["targets"].long().split(lengths)]
    loss, logits = total_loss(model, documents, targets)
    loss.backward()
    expected = {"loss": pair(loss.item()), "logits": logits.detach().float().contiguous()}
    for key, parameter in model.named_parameters():
        if parameter.requires_grad:
            expected["gradient." + key.replace(".default.", ".")] = parameter.grad.float().contiguous()
    save_file(expected, path / "expected.safetensors")
    print(name, loss.item(), sum(os.path.getsize(path / file) for file in os.listdir(path)))


if __name__ == "__main__":
    where = pathlib.Path(sys.argv[1])
    for case_name in sys.argv[2:] or CASES:
        make(case_name, where)
