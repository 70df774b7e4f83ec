#!/usr/bin/env python3
"""Makes the folders of small random decoders, with float64 losses, logits and gradients.

Usage: make_cases.py FOLDER [CASE...]   (needs torch, transformers, tokenizers and safetensors; writes what the tests read)

Each case is a folder as transformers saves it, and expected.safetensors: the token ids and targets of three documents, the
mean loss, the logits of the first document, the gradients of all parameters under the names and shapes of the file, and the
losses of 20 steps of AdamW. All in float64, rounded once: numbers of the loss as a pair of floats. transformers computes
rotary angles and RMSNorm in float32 also in a float64 model; both are replaced here.
"""

import json
import os
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM,
                          Qwen2Config, Qwen2ForCausalLM)
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from transformers.models.qwen2 import modeling_qwen2

VOCABULARY, LENGTHS, STEPS = 96, (17, 6, 2), 20


def rms_norm(self, x):
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def frequencies(config):
    """The turns of each pair in float64, by the formulas of the file format."""
    rope = config.rope_parameters
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    turns = [rope["rope_theta"] ** (-2 * i / width) for i in range(width // 2)]
    if rope["rope_type"] == "linear":
        return [turn / rope["factor"] for turn in turns]
    if rope["rope_type"] == "default":
        return turns
    low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
    positions, result = rope["original_max_position_embeddings"], []
    for turn in turns:
        wavelength = 2 * torch.pi / turn
        smooth = (positions / wavelength - low) / (high - low)
        if wavelength < positions / high:
            result.append(turn)
        elif wavelength > positions / low:
            result.append(turn / factor)
        else:
            result.append((1 - smooth) * turn / factor + smooth * turn)
    return result


def rotary(self, x, position_ids, *_, **__):
    turns = torch.tensor(frequencies(self.config), dtype=torch.float64)
    angles = position_ids[..., None].double() * turns
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


for module, name in ((modeling_llama, "Llama"), (modeling_mistral, "Mistral"), (modeling_qwen2, "Qwen2")):
    getattr(module, f"{name}RMSNorm").forward = rms_norm
    getattr(module, f"{name}RotaryEmbedding").forward = rotary

SMALL = dict(vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64, bos_token_id=1, eos_token_id=2, attn_implementation="eager")
GPT2 = dict(vocab_size=VOCABULARY, n_embd=16, n_layer=2, n_head=2, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, bos_token_id=1, eos_token_id=2, attn_implementation="eager")


def llama(**options):
    return LlamaForCausalLM(LlamaConfig(**SMALL, **options))


CASES = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(**GPT2)),
    "gpt2_bare": lambda: GPT2LMHeadModel(GPT2Config(**GPT2, n_inner=40, activation_function="gelu")),
    "llama_k1": lambda: llama(num_key_value_heads=1, tie_word_embeddings=False),
    "llama_k2": lambda: llama(num_key_value_heads=2, tie_word_embeddings=True, attention_bias=True, mlp_bias=True),
    "llama_k4": lambda: llama(num_key_value_heads=4, head_dim=6, tie_word_embeddings=False),
    "llama_linear": lambda: llama(num_key_value_heads=2, tie_word_embeddings=True,
                                  rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 2.5}),
    "llama_llama3": lambda: llama(num_key_value_heads=2, head_dim=16, tie_word_embeddings=True, rope_parameters={
        "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32}),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=40,
                                                        tie_word_embeddings=False)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SMALL, num_key_value_heads=2, tie_word_embeddings=True,
                                                  rope_parameters={"rope_type": "default", "rope_theta": 1e6})),
}
OLD_KEYS = ("llama_linear", "llama_llama3", "qwen2")  # config.json as transformers 4 wrote it


def randomize(model, generator):
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
        if parameter.dim() == 2:
            values *= 0.2
        else:
            norm = ("ln_" in name or "norm" in name) and name.endswith("weight")
            values = values * 0.1 + (1 if norm else 0)
        parameter.data.copy_(values)


def total_loss(model, documents, targets):
    """The mean over all targets, each document by itself; also the logits of the first document."""
    losses, count, first = 0, 0, None
    for ids, wanted in zip(documents, targets):
        logits = model(torch.tensor([ids])).logits[0]
        first = logits if first is None else first
        wanted = torch.tensor(wanted)
        losses = losses + torch.nn.functional.cross_entropy(logits, wanted, ignore_index=-100, reduction="sum")
        count += int((wanted != -100).sum())
    return losses / count, first


def pair(values):
    values = torch.as_tensor(values, dtype=torch.float64).reshape(-1)
    high = values.float()
    return torch.stack((high, (values - high.double()).float()), dim=1)


def save_old(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"type" if kind == "linear" else "rope_type": kind, **rope}
    config["torch_dtype"] = config.pop("dtype")
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def save_bare(folder):
    """The names of the bare model, with the masks that old versions stored."""
    path = folder / "model.safetensors"
    tensors = {name.removeprefix("transformer."): value for name, value in load_file(path).items()}
    for i in range(2):
        tensors[f"h.{i}.attn.bias"] = torch.tril(torch.ones(32, 32)).reshape(1, 1, 32, 32)
        tensors[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    save_file(tensors, path, metadata={"format": "pt"})


def make(name, folder):
    generator = torch.Generator().manual_seed(sorted(CASES).index(name) + 1)
    model = CASES[name]().eval()
    randomize(model, generator)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if name in OLD_KEYS:
        save_old(folder)
    if name == "gpt2_bare":
        save_bare(folder)
    model = model.double()
    documents = [torch.randint(3, VOCABULARY, (length,), generator=generator).tolist() for length in LENGTHS]
    targets = [ids[1:] + [-100] for ids in documents]
    targets[0][:4] = [-100] * 4  # a prompt
    loss, logits = total_loss(model, documents, targets)
    loss.backward()
    expected = {
        "ids": torch.tensor(sum(documents, []), dtype=torch.int32),
        "targets": torch.tensor(sum(targets, []), dtype=torch.int32),
        "lengths": torch.tensor(LENGTHS, dtype=torch.int32),
        "loss": pair(loss.item()),
        "logits": logits.detach().float().contiguous(),
    }
    for parameter, values in model.named_parameters():
        expected["gradient." + parameter] = values.grad.float().contiguous()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss, _ = total_loss(model, documents, targets)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    expected["losses"] = pair(losses)
    save_file(expected, folder / "expected.safetensors")
    print(name, losses[0], losses[-1], sum(os.path.getsize(folder / file) for file in os.listdir(folder)))


LETTERS = ("Dear all, the train of 8:15 is late again, as it was on Monday and on Tuesday. "
           "We wait at the platform; the café opens at nine. Yours, the people of platform 3.\n") * 3
TEXTS = ["the train is late", "A café at nine!", "x", "the people of platform 3 wait at the train again and again"]
# A merge crosses the border of the first pair.
PAIRS = [("the tra", "in is late"), ("Is it late?", " yes, again"), ("Q: café?", "\u00e9")]


def make_tokenizer(folder, with_start):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([LETTERS], trainer)
    tokenizer.add_special_tokens(["<s>", "</s>"])
    start, end = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")
    if with_start:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", start)])
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    (folder / "special_tokens_map.json").write_text(json.dumps(names, indent=1) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({**names, "model_max_length": 32}, indent=1) + "\n")
    return tokenizer, start, end


def make_texts(name, folder):
    """A folder with a tokenizer, and losses of texts and of prompts with answers."""
    tokenizer, start, end = make_tokenizer(folder, name == "texts_llama")
    rows = tokenizer.get_vocab_size() + 3  # a table with more rows than tokens
    if name == "texts_gpt2":
        model = GPT2LMHeadModel(GPT2Config(**{**GPT2, "vocab_size": rows, "bos_token_id": start, "eos_token_id": end}))
    else:
        model = LlamaForCausalLM(LlamaConfig(**{**SMALL, "vocab_size": rows, "bos_token_id": start, "eos_token_id": end},
                                             num_key_value_heads=2, tie_word_embeddings=False))
    randomize(model.eval(), torch.Generator().manual_seed(77))
    model.save_pretrained(folder)
    model = model.double()
    documents = []
    for prompt, answer in [("", text) for text in TEXTS] + PAIRS:
        encoding = tokenizer.encode(prompt + answer)
        ids = encoding.ids + [end]
        first = next(i for i, (_, last) in enumerate(encoding.offsets) if last > len(prompt)) if prompt else 1
        logits = model(torch.tensor([ids[:-1]])).logits[0].detach()
        losses = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")[first - 1:]
        hits = (logits.argmax(-1) == torch.tensor(ids[1:]))[first - 1:]
        documents.append({"prompt": prompt, "text": answer, "ids": ids, "first": first, "loss": losses.sum().item(),
                          "hits": int(hits.sum()), "tokens": len(losses)})
    (folder / "expected.json").write_text(json.dumps(documents, indent=1) + "\n")
    print(name, rows, [document["loss"] for document in documents])


def main():
    root = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or [*CASES, "texts_gpt2", "texts_llama"]:
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        (make_texts if name.startswith("texts") else make)(name, folder)
        for file in folder.iterdir():
            file.chmod(0o644)


if __name__ == "__main__":
    main()
