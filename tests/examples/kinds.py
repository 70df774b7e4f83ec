"""Models that give a text a number or several labels, and folders as other programs write them.

    python3 kinds.py PROGRAM WORK_FOLDER
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import program as tool

TRAIN = ["train", "--quiet", "--vocab-size=200", "--threads=1", "--max-length=16",
         "--learning-rate=3e-3"]


@contextlib.contextmanager
def serving(program, model):
    """A function that asks a server: (content type, body) to (status, answer)."""
    with tool.Process([program, "serve", f"--model={model}", "--port=0", "--threads=1"],
                      stdout=subprocess.PIPE, text=True, env=tool.environment()) as server:
        port = int(server.stdout.readline().rsplit(":", 1)[1])

        def ask(kind, body):
            for _ in range(200):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request("POST", "/invocations", body, {"Content-Type": kind})
                answer = connection.getresponse()
                if answer.status != 503:
                    return answer.status, answer.read().decode()
                time.sleep(0.05)
            raise AssertionError("the model is never loaded")

        try:
            yield ask
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=60)


def predict(program, model, text):
    return tool.run(program, ["predict", f"--model={model}", "--threads=1"], text=text)


def edited(work, model, name, values):
    """A copy of a model's folder, whose JSON file `name` has these values more."""
    copy = work / "edited"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(model, copy)
    content = json.loads((copy / name).read_text())
    content.update(values)
    (copy / name).write_text(json.dumps(content))
    return copy


def check_regression(program, work, checks):
    rows = work / "numbers.tsv"
    rows.write_text("text\tscore\n" + "".join(
        f"a {'good' if i % 2 else 'dull'} film number {i}\t{1.5 if i % 2 else -0.5}\n"
        for i in range(120)))
    model = work / "number"
    tool.must_run(program, [*TRAIN, "--regression", f"--data={rows}", f"--output={model}",
                            "--epochs=20", "--batch-size=8"])
    config = json.loads((model / "config.json").read_text())
    checks.that(config["problem_type"] == "regression" and len(config["id2label"]) == 1, config)
    result = predict(program, model, b"a good film\n\na dull film\n")
    answers = result.stdout.decode().split("\n")
    checks.that(len(answers) == 4 and answers[1] == "" and float(answers[0]) > float(answers[2]) + 1,
                f"{answers} {result.stderr}")
    table = json.loads(tool.must_run(program, ["evaluate", f"--model={model}", f"--data={rows}",
                                               "--json"]).stdout)
    checks.that(table["rows"] == 120 and table["mse"] < 0.2 and table["r2"] > 0.8, table)
    checks.that(abs(table["loss"] - table["mse"]) < 1e-4, table)
    with serving(program, model) as ask:
        status, body = ask("application/json", '{"inputs": ["a good film", "a dull film"]}')
        numbers = [each["number"] for each in json.loads(body)["predictions"]]
        checks.that(status == 200 and numbers[0] > numbers[1] + 1, body)
        checks.that(ask("text/csv", "a good film\r\n") == (200, f"{answers[0]}\r\n"), "as CSV")
        checks.that(ask("text/plain", "a good film\n") == (200, f"{answers[0]}\n"), "as text")
        checks.that(ask("text/plain", "a good film\n \n") == (200, f"{answers[0]}\n\n"), "a blank line")
        checks.that(json.loads(ask("application/json", '{"text": ""}')[1]) == {"predictions": [{"number": None}]},
                    "no number for no text")
    # Streamed rows are the same numbers; what is no number is refused by line.
    tool.must_run(program, [*TRAIN, "--regression", f"--data={rows}", f"--dev={rows}",
                            "--stream=50"])
    rows.write_text("a film\t1\nanother\tgood\n")
    for more in ([], ["--stream=50"]):
        result = tool.run(program, [*TRAIN, "--regression", f"--data={rows}", f"--dev={rows}", *more])
        checks.that(result.returncode == 1 and b"[text.row_label]" in result.stderr, result.stderr)
    result = tool.run(program, [*TRAIN, "--regression", f"--data={rows}", "--confusion=c.csv"])
    checks.that(result.returncode == 2 and b"--confusion" in result.stderr, result.stderr)
    result = tool.run(program, ["evaluate", f"--model={model}", f"--data={rows}", "--confusion=c"])
    checks.that(result.returncode == 2 and b"--confusion" in result.stderr, result.stderr)


def check_several(program, work, model, checks):
    """A model whose file says that a text may have several labels answers so."""
    several = edited(work, model, "config.json", {"problem_type": "multi_label_classification"})
    lines = predict(program, several, b"a good film\n").stdout.decode().splitlines()
    checks.that(len(lines) == 1 and lines[0].count("\t") in (0, 1, 3), lines)
    with serving(program, several) as ask:
        answer = json.loads(ask("application/json", '{"text": "a good film"}')[1])["predictions"][0]
        wanted = [label for label, p in answer["probabilities"].items() if p > 0.5]
        checks.that(sorted(answer["labels"]) == sorted(wanted), answer)
        checks.that([field for field in lines[0].split("\t")[::2] if field] == answer["labels"],
                    f"{lines} {answer}")
        none = json.loads(ask("application/json", '{"text": " "}')[1])["predictions"][0]
        checks.that(none["labels"] == [] and set(none["probabilities"].values()) == {0}, none)
        checks.that(predict(program, several, b"\n").stdout == b"\n", "no labels for no text")
        row = ask("text/csv", "a good film\n")[1]
        checks.that(row == lines[0].replace("\t", ",") + "\r\n", row)


def check_settings(program, work, model, checks):
    """What the usual libraries honour is honoured or refused, and what is written after it works."""
    plain = predict(program, model, b"a good film\n").stdout
    for name, values, error in [
            ("tokenizer_config.json", {"tokenizer_class": "XLMRobertaTokenizer"}, "tokenizer_file"),
            ("tokenizer_config.json", {"never_split": ["x"]}, "tokenizer_file"),
            ("config.json", {"auto_map": {"AutoModel": "code.Model"}}, "config_value"),
            ("config.json", {"pruned_heads": {"0": [1]}}, "config_value"),
            ("config.json", {"problem_type": "ranking"}, "config_value"),
            ("config.json", {"tokenizer_class": "BertJapaneseTokenizer"}, "")]:
        folder = edited(work, model, name, values)
        result = predict(program, folder, b"a good film\n")
        if error:
            checks.that(result.returncode == 1 and error.encode() in result.stderr,
                        f"{values}: {result.stderr} {result.stdout}")
        else:  # tokenizer_config.json has a class of its own
            checks.that(result.stdout == plain, f"{values}: {result.stderr}")
    # A class that reads tokenizer.json alone, and one that reads more in one version of transformers.
    for name, reads in (("PreTrainedTokenizerFast", False), ("ConvBertTokenizer", True)):
        folder = edited(work, model, "tokenizer_config.json", {"tokenizer_class": name, "do_lower_case": False})
        small, large = (predict(program, folder, text) for text in (b"a good film\n", b"A GOOD FILM\n"))
        checks.that(small.returncode == 0 and (small.stdout != large.stdout) == reads, f"{name}: {small} {large}")
        checks.that((b"transformers 4" in small.stderr and b"transformers 5" in small.stderr) == reads,
                    f"{name}: {small.stderr}")
    left = edited(work, model, "tokenizer_config.json",
                  {"truncation_side": "left", "model_max_length": 6})
    ends = [predict(program, left, text).stdout
            for text in (b"good good good good dull dull dull dull\n", b"dull dull dull dull\n")]
    checks.that(ends[0] == ends[1] != b"", ends)
    # Without --max-length, texts are cut to the positions that the model has.
    short = work / "short"
    shutil.rmtree(short, ignore_errors=True)
    tool.must_run(program, ["train", "--quiet", "--threads=1", f"--data={work}/rows.tsv",
                            f"--pretrained={few_positions(work, model)}", f"--output={short}"])
    settings = json.loads((short / "tokenizer_config.json").read_text())
    checks.that(settings["model_max_length"] == 64, settings)


def few_positions(work, model):
    """A copy whose model has 64 positions: the first rows of the table."""
    copy = edited(work, model, "config.json", {"max_position_embeddings": 64})
    header, data = read_weights(copy)
    name = "bert.embeddings.position_embeddings.weight"
    begin, _ = header[name]["data_offsets"]
    kept = {key: data[slice(*header[key]["data_offsets"])] for key in header if key != "__metadata__"}
    width = header[name]["shape"][1]
    kept[name] = data[begin:begin + 64 * width * 4]
    header[name]["shape"][0] = 64
    write_weights(copy, header, kept)
    return copy


def read_weights(folder):
    content = (folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:8 + size]), content[8 + size:]


def write_weights(folder, header, parts):
    at, data = 0, b""
    for name, part in parts.items():
        header[name]["data_offsets"] = [at, at + len(part)]
        at += len(part)
        data += part
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def check_broken(program, work, model, checks):
    """Weights that are not finite give an error, never a class."""
    folder = edited(work, model, "config.json", {})
    header, data = read_weights(folder)
    parts = {key: data[slice(*header[key]["data_offsets"])] for key in header if key != "__metadata__"}
    parts["classifier.bias"] = struct.pack("<f", float("nan")) + parts["classifier.bias"][4:]
    write_weights(folder, header, parts)
    result = predict(program, folder, b"a good film\n")
    checks.that(result.returncode == 1 and result.stdout == b"" and
                b"is NaN" in result.stderr and b"[models.not_finite]" in result.stderr, result)
    result = tool.run(program, ["evaluate", f"--model={folder}", f"--data={work}/rows.tsv"])
    checks.that(result.returncode == 1 and b"[models.not_finite]" in result.stderr, result)
    with serving(program, folder) as ask:
        for kind, body in [("application/json", '{"text": "a"}'), ("text/csv", "a\n"),
                           ("text/plain", "a\n")]:
            status, answer = ask(kind, body)
            checks.that(status == 500 and json.loads(answer)["id"] == "models.not_finite", answer)


def check_blank_lines(program, model, checks):
    """A line without text has no class, and other lines have the answers that they have alone."""
    alone = predict(program, model, b"a good film\n").stdout
    result = predict(program, model, b"\na good film\n \t \n")
    checks.that(result.stdout == b"\t0.0000\n" + alone + b"\t0.0000\n" and not result.stderr,
                result.stdout)
    checks.that(re.fullmatch(rb"\d\t0\.\d{4}\n", alone), alone)
    with serving(program, model) as ask:
        served = ask("text/plain", "\na good film\n \t \n")
        checks.that(served == (200, result.stdout.decode()), f"serve says of blank lines what predict says: {served}")
        answer = json.loads(ask("application/json", '{"inputs": ["", "a good film"]}')[1])["predictions"]
        checks.that(answer[0] == {"label": "", "probability": 0, "probabilities": {"0": 0, "1": 0}}, answer)
        checks.that(answer[1]["label"] == alone.decode()[0], answer)


def main():
    program, work = os.path.abspath(sys.argv[1]), tool.fresh_folder(Path(sys.argv[2]).absolute())
    (work / "rows.tsv").write_bytes(tool.rows())
    model = work / "model"
    tool.must_run(program, [*TRAIN, f"--data={work}/rows.tsv", f"--output={model}"])
    checks = tool.Checks()
    check_regression(program, work, checks)
    check_several(program, work, model, checks)
    check_settings(program, work, model, checks)
    check_broken(program, work, model, checks)
    check_blank_lines(program, model, checks)
    return checks.finish("kinds of models, and folders of other programs")


if __name__ == "__main__":
    sys.exit(main())
