"""The driver of bench/inference.sh: asks soma_inference, ONNX Runtime and PyTorch for the same texts in turn."""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

# The lengths of the texts of a call.
CALLS = [
    [8], [16], [32], [64], [128], [256],
    [2, 8, 3, 5, 2, 6, 4, 4], [4, 16, 6, 10, 5, 12, 8, 8], [8, 32, 12, 20, 9, 25, 16, 16],
    [16, 64, 24, 40, 18, 50, 32, 32], [32, 128, 48, 80, 36, 98, 64, 64],
]
SIZES = {"tiny": (2, 2), "minilm": (6, 12), "base": (12, 12)}


def cpu_ms(call):
    """The least of five calls, after one that is not counted."""
    call()
    times = []
    for _ in range(5):
        start = time.process_time()
        call()
        times.append((time.process_time() - start) * 1e3)
    return min(times)


def torch_model(folder, heads):
    """A BERT classifier with the weights of a folder, as a function of padded ids and their mask."""
    import torch
    from torch.nn import functional as F

    class Bert(torch.nn.Module):
        def __init__(self, tensors, layers):
            super().__init__()
            self.layers = layers
            self.width = tensors["classifier.weight"].shape[1]
            self.names = {name: name.replace(".", "_") for name in tensors}
            for name, tensor in tensors.items():
                self.register_buffer(self.names[name], tensor)

        def of(self, name):
            return getattr(self, self.names[name])

        def linear(self, x, name):
            return F.linear(x, self.of(name + ".weight"), self.of(name + ".bias"))

        def norm(self, x, name):
            return F.layer_norm(x, [self.width], self.of(name + ".weight"), self.of(name + ".bias"), 1e-12)

        def forward(self, ids, mask):
            part = "bert.embeddings."
            positions = self.of(part + "position_embeddings.weight")[: ids.shape[1]]
            x = F.embedding(ids, self.of(part + "word_embeddings.weight")) + positions
            x = self.norm(x + self.of(part + "token_type_embeddings.weight")[0], part + "LayerNorm")
            wide = (1.0 - mask[:, None, None, :].to(x.dtype)) * -1e9
            split = lambda y: y.unflatten(2, (heads, self.width // heads)).transpose(1, 2)
            for i in range(self.layers):
                at = f"bert.encoder.layer.{i}."
                q, k, v = (split(self.linear(x, at + "attention.self." + n)) for n in ("query", "key", "value"))
                scores = torch.matmul(q, k.transpose(2, 3)) * ((self.width // heads) ** -0.5) + wide
                mixed = torch.matmul(torch.softmax(scores, -1), v).transpose(1, 2).flatten(2)
                x = self.norm(x + self.linear(mixed, at + "attention.output.dense"), at + "attention.output.LayerNorm")
                inner = F.gelu(self.linear(x, at + "intermediate.dense"))
                x = self.norm(x + self.linear(inner, at + "output.dense"), at + "output.LayerNorm")
            return self.linear(torch.tanh(self.linear(x[:, 0], "bert.pooler.dense")), "classifier")

    # The file's header: name, shape and offsets of each fp32 tensor.
    data = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).view(entry["shape"])
    layers = 1 + max(int(name.split(".")[3]) for name in tensors if name.startswith("bert.encoder.layer."))
    return Bert(tensors, layers).eval()


def padded(lengths):
    import numpy

    ids = numpy.full((len(lengths), max(lengths)), 5, dtype=numpy.int64)
    mask = numpy.array([[int(j < n) for j in range(max(lengths))] for n in lengths], dtype=numpy.int64)
    return ids, mask


def others(folder, kind):
    """The calls of PyTorch and ONNX Runtime by name; none where they are not installed."""
    result = {}
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: neither it nor ONNX Runtime is measured")
        return result
    torch.set_num_threads(1)
    model = torch_model(folder, SIZES[kind][1])

    def with_torch(lengths):
        ids, mask = (torch.from_numpy(x) for x in padded(lengths))
        with torch.inference_mode():
            return model(ids, mask)

    result["torch"] = with_torch
    try:
        import onnxruntime
        from onnxruntime.transformers import optimizer

        path = str(folder / "model.onnx")
        axes = {"ids": {0: "texts", 1: "tokens"}, "mask": {0: "texts", 1: "tokens"}}
        torch.onnx.export(model, tuple(torch.from_numpy(x) for x in padded([8, 5])), path, dynamo=False,
                          input_names=["ids", "mask"], output_names=["logits"], dynamic_axes=axes, opset_version=17)
        fused = optimizer.optimize_model(path, "bert", num_heads=SIZES[kind][1], hidden_size=0, opt_level=1)
        fused.save_model_to_file(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        result["onnx"] = lambda lengths: session.run(None, dict(zip(("ids", "mask"), padded(lengths))))
    except ImportError as error:
        print(f"ONNX Runtime is not measured: {error}")
    return result


def first_answer(program, folder):
    """CPU seconds and peak megabytes of a process that loads the folder and answers 16 tokens."""
    with subprocess.Popen([program, "answer", folder, "16"], stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{program} answer failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="minilm,base")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--program", default="build/release/bin/soma_inference")
    options = parser.parse_args()
    cpu = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    print(f"{cpu[0] if cpu else 'CPU unknown'}; one thread; CPU milliseconds, medians of {options.rounds} rounds")
    for kind in options.models.split(","):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "model"
            subprocess.run([options.program, "make", kind, folder], check=True)
            first = [first_answer(options.program, folder) for _ in range(3)]
            print(f"{kind}: process to first answer {min(first)[0]:.3f} s CPU, peak {min(first)[1]:.0f} MB, "
                  f"file {(folder / 'model.safetensors').stat().st_size / 2**20:.0f} MB")
            worker = subprocess.Popen([options.program, "work", folder], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True, bufsize=1)

            def soma(way, lengths):
                worker.stdin.write(" ".join([way, *map(str, lengths)]) + "\n")
                return float(worker.stdout.readline())

            beside = others(folder, kind)
            names = ["plain", "packed", *beside]
            print("tokens\t" + "\t".join(names) + "\t" + "\t".join(f"{n}/packed" for n in names if n != "packed"))
            for lengths in CALLS:
                rows = []
                for _ in range(options.rounds):
                    row = {way: soma(way, lengths) for way in ("plain", "packed")}
                    row.update({name: cpu_ms(lambda call=call: call(lengths)) for name, call in beside.items()})
                    rows.append(row)
                median = {name: statistics.median(row[name] for row in rows) for name in names}
                ratios = [statistics.median(row[n] / row["packed"] for row in rows) for n in names if n != "packed"]
                label = str(sum(lengths)) if len(lengths) == 1 else f"{len(lengths)} texts, {sum(lengths)}"
                print(label + "\t" + "\t".join(f"{median[n]:.1f}" for n in names) + "\t"
                      + "\t".join(f"{ratio:.2f}" for ratio in ratios), flush=True)
            worker.stdin.close()
            worker.wait()


if __name__ == "__main__":
    main()
