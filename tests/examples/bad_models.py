"""Ways to spoil a folder that train wrote, and the error that loading it ends with."""

import json
import struct

MODEL_CASES = []  # (name, error, change of the files)


def model(name, error, change):
    MODEL_CASES.append((name, error, change))


def put(name, content):
    def change(files):
        files[name] = content
    return change


def drop(*names):
    def change(files):
        for name in names:
            del files[name]
    return change


def config(**values):
    def change(files):
        files["config.json"] = json.dumps({**json.loads(files["config.json"]), **values}).encode()
    return change


def tensors(edit):
    """Edits the header of model.safetensors, an object of {"dtype", "shape", "data_offsets"}."""
    def change(files):
        content = files["model.safetensors"]
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + size])
        edit(header)
        text = json.dumps(header).encode()
        files["model.safetensors"] = struct.pack("<Q", len(text)) + text + content[8 + size:]
    return change


def other_shape(header):
    header["classifier.weight"]["shape"].reverse()


def without_layer(header):
    header["bert.encoder.layer.9.output.dense.bias"] = header.pop(
        "bert.encoder.layer.0.output.dense.bias")


def without_classifier(header):
    for part in ("weight", "bias"):
        header[f"other_head.{part}"] = header.pop(f"classifier.{part}")


def cut(name, size):
    def change(files):
        files[name] = files[name][:size]
    return change


def pieces(edit):
    """Edits the list of word pieces of a model that has no tokenizer.json."""
    def change(files):
        del files["tokenizer.json"]
        files["vocab.txt"] = b"".join(edit(files["vocab.txt"].splitlines(keepends=True)))
    return change


model("config missing", "file.read", drop("config.json"))
model("config empty", "models.config_json", put("config.json", b""))
model("config not JSON", "models.config_json", put("config.json", b"{hidden_size: 3"))
model("config a list", "models.config_json", put("config.json", b"[1, 2]"))
model("config zero byte", "models.config_json", put("config.json", b"{}\0"))
model("config text for a number", "models.config_type", config(hidden_size="128"))
model("config fraction for a number", "models.config_type", config(num_hidden_layers=1.5))
model("config heads", "models.config_value", config(num_attention_heads=3))
model("config no heads", "models.config_value", config(num_attention_heads=0))
model("config layers below zero", "models.config_value", config(num_hidden_layers=-1))
model("config size beyond all", "models.config_value", config(hidden_size=1 << 60))
model("config activation", "models.config_value", config(hidden_act="prelu"))
model("config other model", "models.config_value", config(model_type="gpt2"))
model("config relative positions", "models.config_value",
      config(position_embedding_type="relative_key"))
model("config dropout", "models.config_value", config(hidden_dropout_prob=1.5))
model("config labels", "models.config_value", config(num_labels=5))
model("config one label", "models.config_value", config(id2label={"0": "yes"}, num_labels=1))
model("config labels with a hole", "models.config_value", config(id2label={"0": "a", "7": "b"}))
model("config label of two lines", "models.config_value", config(id2label={"0": "a", "1": "b\nc"}))
model("config label with a tab", "models.config_value", config(id2label={"0": "a\tb", "1": "c"}))
model("config label empty", "models.config_value", config(id2label={"0": "", "1": "b"}))
model("config label twice", "models.config_value", config(id2label={"0": "a", "1": "a"}))
model("config of another problem", "models.config_value", config(problem_type="ranking"))
model("config of one number for two labels", "models.config_value",
      config(problem_type="regression"))
model("config of code of its own", "models.config_value",
      config(auto_map={"AutoModel": "modeling.Other"}))
model("weights of another library", "models.weights_file", lambda files: files.update({
    "pytorch_model.bin": files.pop("model.safetensors")}))
model("weights of 64 bits", "safetensors.dtype",
      tensors(lambda header: [entry.update(dtype="F64", shape=[*entry["shape"][:-1],
                                                               entry["shape"][-1] // 2])
                              for name, entry in header.items() if name != "__metadata__"]))
model("weights under a prefix", "state.missing_name",
      tensors(lambda header: [header.update({f"module.{name}": header.pop(name)})
                              for name in list(header) if name != "__metadata__"]))
model("config of labels for tokens", "state.missing_name",
      config(architectures=["BertForTokenClassification"]))
model("config too few positions", "state.shape", config(max_position_embeddings=8))
model("config of another width", "state.shape", config(hidden_size=64))
model("config of another depth", "state.missing_name", config(num_hidden_layers=5))
model("config of far more layers", "models.config_value", config(num_hidden_layers=800))
model("config of far more positions", "models.config_value",
      config(max_position_embeddings=1 << 20))
model("config of fewer layers", "state.extra_name", config(num_hidden_layers=1))
model("weights missing", "file.read", drop("model.safetensors"))
model("weights empty", "safetensors.header", put("model.safetensors", b""))
model("weights garbage", "safetensors.header", put("model.safetensors", b"garbage" * 99))
model("weights cut", "safetensors.size", cut("model.safetensors", -5000))
model("weights cut in the header", "safetensors.header", cut("model.safetensors", 200))
model("weights header size lies", "safetensors.header",
      put("model.safetensors", struct.pack("<Q", 1 << 63) + b"{}"))
model("weights header size too small", "safetensors.header",
      put("model.safetensors", struct.pack("<Q", 1) + b"{}"))
model("weights of another shape", "state.shape", tensors(other_shape))
model("weights without classifier", "state.missing_name", tensors(without_classifier))
model("weights without a layer's part", "state.extra_name", tensors(without_layer))
model("weights of no such type", "safetensors.dtype",
      tensors(lambda header: header["classifier.bias"].update(dtype="FP99")))
model("weights of no floating-point type", "state.dtype",
      tensors(lambda header: [entry.update(dtype="U32") for name, entry in header.items()
                              if name != "__metadata__"]))
model("weights overlap", "safetensors.size",
      tensors(lambda header: header["classifier.bias"].update(
          data_offsets=header["bert.pooler.dense.bias"]["data_offsets"])))
model("weights offsets beyond the file", "safetensors.size",
      tensors(lambda header: header["classifier.bias"].update(data_offsets=[1 << 40, 1 << 41])))
model("index of no files", "models.shard_index", lambda files: files.update({
    "model.safetensors.index.json": b'{"weight_map": {}}', "model.safetensors": None}))
model("index out of its folder", "models.shard_index", lambda files: files.update({
    "model.safetensors.index.json": b'{"weight_map": {"a": "../../base/model.safetensors"}}',
    "model.safetensors": None}))
model("tokenizer missing", "file.read", drop("tokenizer.json", "vocab.txt"))
model("tokenizer broken", "text.tokenizer_file", put("tokenizer.json", b'{"model": {'))
model("tokenizer of another kind", "text.tokenizer_file",
      put("tokenizer.json", b'{"model": {"type": "BPE", "vocab": {}, "merges": []}}'))
model("tokenizer settings broken", "text.tokenizer_file", lambda files: (
    files.pop("tokenizer.json"), files.update({"tokenizer_config.json": b"[]"})))
model("tokenizer zero byte", "text.tokenizer_file",
      lambda files: files.update({"tokenizer.json": files["tokenizer.json"] + b"\0x"}))
model("tokenizer settings zero byte", "text.tokenizer_file", put("tokenizer_config.json", b"{}\0x"))
model("vocabulary empty", "text.vocabulary", pieces(lambda lines: []))
model("vocabulary without [UNK]", "text.special_token",
      pieces(lambda lines: [line for line in lines if line != b"[UNK]\n"]))
model("vocabulary of more lines than weights", "state.shape",
      pieces(lambda lines: lines + lines[-1:]))
model("vocabulary not UTF-8", "text.vocabulary", pieces(lambda lines: lines + [b"\xff\xfe\n"]))
model("vocabulary with an empty line more", "state.shape",
      pieces(lambda lines: lines[:9] + [b"\n"] + lines[9:]))
