"""predict as a filter, evaluate --json, --help, and options from a file.

    python3 predict.py PROGRAM WORK_FOLDER
"""

import gzip
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import program as tool

TRAIN = ["train", "--quiet", "--vocab-size=300", "--max-length=16", "--threads=1"]
COMMANDS = ["train", "plan", "evaluate", "predict", "embed", "serve", "describe"]


def labels(output):
    return [line.split(b"\t")[0] for line in output.splitlines()]


def check_streaming(program, model, checks):
    """A line is answered before the next one is sent."""
    with tool.Process([program, "predict", f"--model={model}"], stdin=subprocess.PIPE,
                      stdout=subprocess.PIPE, bufsize=0, env=tool.environment()) as running:
        for text in [b"a good film", b"a dull film", b""]:
            running.stdin.write(text + b"\n")
            ready, _, _ = select.select([running.stdout], [], [], 60)
            checks.that(bool(ready), f"no answer to {text} before the next line")
            answer = running.stdout.readline() if ready else b""
            checks.that(answer.endswith(b"\n") and answer.count(b"\t") == 1, f"answer {answer}")
        running.stdin.close()
        checks.that(running.wait(60) == 0 and running.stdout.read() == b"", "the end of streaming")


def check_lines(program, model, work, checks):
    def predict(text, *options):
        result = tool.run(program, ["predict", f"--model={model}", *options], text=text)
        checks.that(result.returncode == 0 and not result.stderr, f"{text[:40]}: {result.stderr}")
        return result.stdout

    lines = [b"a good film", b"", b"a dull plot", b"   ", b"caf\xc3\xa9", b"a\tb",
             b"x" * 100_000, b"\xf0\x9f\x98\x80"]
    whole = predict(b"\n".join(lines) + b"\n")
    checks.that(whole.count(b"\n") == len(lines), f"not an answer a line: {whole[-300:]}")
    checks.that(predict(b"\r\n".join(lines) + b"\r\n") == whole, "CR LF gives other answers")
    checks.that(predict(b"\n".join(lines)) == whole, "a last line without its end")
    checks.that(predict(b"") == b"", "no lines, no answers")
    path = work / "lines.txt"
    path.write_bytes(b"\n".join(lines) + b"\n")
    checks.that(predict(b"", str(path)) == whole, "a file gives other answers")
    checks.that(predict(path.read_bytes(), "-") == whole, "- is standard input")
    many = [lines[i % len(lines)] for i in range(200)]
    expected = [labels(whole)[i % len(lines)] for i in range(200)]
    path.write_bytes(b"\n".join(many) + b"\n")
    for size in (1, 7, 200):
        found = labels(predict(b"", str(path), f"--batch-size={size}"))
        checks.that(found == expected, f"batches of {size} lines")


def check_files(program, model, work, checks):
    """Compressed files, UTF-16, several files and pipes have the answers of their texts."""
    def predict(*files, text=b""):
        return tool.run(program, ["predict", f"--model={model}", *[str(file) for file in files]], text=text)

    text = "".join(f"{'dull' if i % 3 else 'good'} film, caf\u00e9 {i}\n" for i in range(50)) + "\n"
    plain = work / "plain.txt"
    plain.write_text(text, encoding="utf-8")
    wanted = predict(plain).stdout
    checks.that(wanted.count(b"\n") == 51, f"{wanted}")
    forms = {"gz": gzip.compress(text.encode()), "two gz": gzip.compress(text[:99].encode()) +
             gzip.compress(text[99:].encode()), "mark": b"\xef\xbb\xbf" + text.encode(), "utf-16": text.encode("utf-16"),
             "big": b"\xfe\xff" + text.encode("utf-16-be"), "gz utf-16": gzip.compress(text.encode("utf-16"))}
    for name, content in forms.items():
        (work / "form").write_bytes(content)
        for how, result in [("file", predict(work / "form")), ("standard input", predict("-", text=content))]:
            checks.that(result.returncode == 0 and result.stdout == wanted, f"{name}, {how}: {result.stderr}")
    checks.that(predict(plain, work / "form", "-", text=forms["gz"]).stdout == wanted * 3, "three files")
    # What is not text is refused by file and line, behind the answers of the lines before.
    for name, bad, says in [("latin.txt", "good\n\ncaf\u00e9\n".encode("latin-1"), b"line 3 of"),
                            ("zero.txt", b"good\na\0b\n", b"line 2 of"), ("wide.txt", b"\xff\xfea\0\n", b"line 1 of"),
                            ("cut.gz", gzip.compress(text.encode() * 99)[:-9], b"cut.gz")]:
        (work / name).write_bytes(bad)
        result = predict(plain, work / name)
        checks.that(result.returncode == 1 and says in result.stderr and name.encode() in result.stderr and
                    result.stderr.count(b"\n") == 1, f"{name}: {result.stderr}")
        checks.that(result.stdout.startswith(wanted), f"{name}: the answers before")
        checks.that(name != "latin.txt" or result.stdout.count(b"\n") == 53, f"{name}: two lines before")
    piped = subprocess.run(["bash", "-c", f'"$0" predict --model="{model}" <(cat "$1") <(gzip -c "$1")', program,
                            str(plain)], capture_output=True, env=tool.environment(), timeout=60)
    checks.that(piped.stdout == wanted * 2, f"process substitution: {piped.stderr}")
    (work / "rows.gz").write_bytes(gzip.compress(tool.rows()))
    report = ["evaluate", f"--model={model}", "--json", "--data"]
    for files, count, content in [([work / "rows.tsv", work / "rows.gz"], 120, b""), (["-"], 60, tool.rows()),
                                  (["-", work / "rows.tsv"], 120, gzip.compress(tool.rows()))]:
        result = tool.run(program, [*report, *[str(file) for file in files]], text=content)
        checks.that(result.returncode == 0 and json.loads(result.stdout)["rows"] == count, f"{files}: {result.stderr}")
    (work / "evaluate.json").write_text(json.dumps({"data": str(work / "rows.tsv")}))
    for more, count in [([], 60), ([f"--data={work}/rows.gz"], 60)]:
        result = tool.run(program, [*report[:-1], f"--config={work}/evaluate.json", *more])
        checks.that(result.returncode == 0 and json.loads(result.stdout)["rows"] == count, f"--config {more}: {result.stderr}")


def check_closed_pipe(program, model, checks):
    """Whoever reads the answers went away."""
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run([program, "predict", f"--model={model}"], input=b"good\n" * 5000,
                            stdout=writer, stderr=subprocess.PIPE, env=tool.environment(),
                            timeout=60)
    os.close(writer)
    checks.that(result.returncode == 1, f"closed pipe: exit code {result.returncode}")
    checks.that(result.stderr.endswith(b"[file.write]\n") and result.stderr.count(b"\n") == 1,
                f"closed pipe: {result.stderr}")
    for command in (["predict", f"--model={model}"], ["describe"],
                    ["evaluate", f"--model={model}", "--data=rows.tsv", "--json"]):
        with open("/dev/full", "wb") as full:
            result = subprocess.run([program, *command], input=b"good\n", stdout=full,
                                    stderr=subprocess.PIPE, env=tool.environment(), timeout=60,
                                    cwd=Path(model).parent)
        checks.that(result.returncode == 1 and result.stderr.endswith(b"[file.write]\n"),
                    f"{command[0]} into a full device: {result.returncode}, {result.stderr}")


def check_signals(program, model, work, checks):
    """The first signal ends what waits or computes, and the exit code says that not all was done."""
    for number in (signal.SIGINT, signal.SIGTERM):
        with tool.Process([program, "predict", f"--model={model}"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                          env=tool.environment()) as running:
            running.stdin.write(b"a good film\n")
            checks.that(running.stdout.readline().count(b"\t") == 1, "an answer before the signal")
            running.send_signal(number)
            check_interrupted(running, "predict", checks)
    pipe = work / "pipe"
    os.mkfifo(pipe)
    (work / "many.tsv").write_bytes(tool.rows() * 3_000)
    for command in (["predict", str(pipe)], ["evaluate", f"--data={work}/many.tsv"]):
        with tool.Process([program, *command, f"--model={model}"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=tool.environment()) as running:
            time.sleep(1)
            running.send_signal(signal.SIGTERM)
            check_interrupted(running, command[0], checks)


def check_interrupted(running, command, checks):
    try:
        code = running.wait(20)
    except subprocess.TimeoutExpired:
        running.kill()
        code = "still running"
    checks.that(code == 1, f"{command} ended by a signal: exit code {code}")
    message = running.stderr.read()
    checks.that(message.endswith(b"[cli.interrupted]\n") and message.count(b"\n") == 1,
                f"{command} ended by a signal: {message}")


def check_streams(program, model, work, checks):
    """Streams that are closed or full, and files that may not grow."""
    def shell(line, *command):
        return subprocess.run(["sh", "-c", line, "sh", program, *command], input=b"a good film\n",
                              capture_output=True, env=tool.environment(), timeout=60)

    for command in (["--help"], ["train", "--help"]):
        result = shell('exec "$@" > /dev/full', *command)
        checks.that(result.returncode == 1 and result.stderr.endswith(b"[file.write]\n"),
                    f"{command} into a full device: {result.returncode}, {result.stderr}")
    log = work / "closed.jsonl"
    train = [*TRAIN, f"--data={work}/rows.tsv", "--epochs=1", f"--log-json={log}"]
    result = shell('exec "$@" >&-', *train)
    checks.that(result.returncode == 1 and result.stderr.endswith(b"[file.write]\n"),
                f"standard output closed: {result.returncode}, {result.stderr}")
    checks.that(tool.log_lines(log)[-1].get("event") == "done", "it went into the log")
    result = shell('exec "$@" <&- >&- 2>&-', *train)
    checks.that(result.returncode == 1, f"all closed: {result.returncode}")
    checks.that(tool.log_lines(log)[-1].get("event") == "done", "it went into the log")
    checks.that(shell('exec "$@" <&-', "predict", f"--model={model}").stderr.endswith(b"[file.read]\n"),
                "standard input closed")
    result = shell('ulimit -f 100; exec "$@"', *TRAIN, f"--data={work}/rows.tsv", "--epochs=1",
                   f"--output={work}/limited")
    checks.that(result.returncode == 1 and result.stderr.endswith(b"[file.write]\n"),
                f"a limit of files: {result.returncode}, {result.stderr}")
    checks.that(not list(work.glob("limited*")), "something is left of a model that was too large")


def check_evaluate(program, model, work, checks):
    arguments = ["evaluate", f"--model={model}", f"--data={work}/rows.tsv"]
    result = tool.must_run(program, [*arguments, "--json", f"--confusion={work}/confusion.csv"])
    checks.that(result.stdout.count(b"\n") == 1, "evaluate --json writes one line")
    found = json.loads(result.stdout)
    checks.that(found["rows"] == 60, f"{found}")
    checks.that(found["accuracy_low"] <= found["accuracy"] <= found["accuracy_high"], f"{found}")
    (work / "bad.tsv").write_bytes(tool.rows() + b"a row without a label\n")
    bad = tool.must_run(program, ["evaluate", f"--model={model}", f"--data={work}/bad.tsv", "--skip-bad-rows",
                                  "--json"])
    checks.that(json.loads(bad.stdout)["rows"] == 60 and b"skipped 1 rows: text.row_columns" in bad.stderr,
                f"a bad row is counted: {bad.stderr}")
    folder = work / "parts"
    folder.mkdir()
    (folder / "train.tsv").write_bytes(tool.rows(60))
    (folder / "dev.tsv").write_bytes(tool.rows(40))
    on_folder = ["evaluate", f"--model={model}", f"--data={folder}", "--json"]
    checks.that(json.loads(tool.must_run(program, on_folder).stdout)["rows"] == 40, "dev of a folder without test")
    (folder / "test.tsv").write_bytes(b"good\t1\nfine\t1\n")  # one class is enough to measure by
    one = json.loads(tool.must_run(program, on_folder).stdout)
    checks.that(one["rows"] == 2, "test of a folder")
    # One class has no curve, and classes that are nowhere have no values.
    checks.that("auc" in one and one["auc"] is None, f"{one}")
    table = tool.must_run(program, on_folder[:-1]).stdout.decode()
    checks.that(", AUC -, " in table and re.search(r"^0\t\S+\t-\t\S+$", table, re.M), f"{table}")
    table = (work / "confusion.csv").read_text().splitlines()
    cells = [[int(cell) for cell in line.split(",")[1:3]] for line in table[1:3]]
    checks.that(sum(map(sum, cells)) == 60, f"confusion {table}")
    right = cells[0][0] + cells[1][1]
    checks.that(abs(right / 60 - found["accuracy"]) < 1e-9, f"confusion {table}, {found}")
    text = tool.must_run(program, arguments).stdout.decode()
    checks.that(f"accuracy {found['accuracy']:.4f}" in text and "60 rows" in text, text)


def check_help(program, checks):
    top = tool.run(program, ["--help"])
    checks.that(top.returncode == 0 and not top.stderr, "--help")
    for command in COMMANDS:
        checks.that(command in top.stdout.decode(), f"--help does not name {command}")
        result = tool.run(program, [command, "--help"])
        text = result.stdout.decode()
        checks.that(result.returncode == 0 and not result.stderr, f"{command} --help")
        checks.that("--config" in text, f"{command} --help does not name --config")
        defaults = re.findall(r"in \[(\d+) - (\d+)\](?:=| \[)(\d+)", text)  # as versions of CLI11 print them
        checks.that(command != "train" or defaults, f"{command} --help names no defaults with their ranges")
        for least, most, default in defaults:
            checks.that(int(least) <= int(default) <= int(most), f"{command} --help: {default} is out of its range")
    examples = Path(__file__).resolve().parents[2] / "examples"
    sources = ["bert_classifier/train/options.cpp", "training/run_options.cpp", "training/rank_options.cpp"]
    named = {part.split('"')[0] for source in sources for part in (examples / source).read_text().split('"--')[1:]}
    helps = "".join(tool.run(program, [command, "--help"]).stdout.decode() for command in COMMANDS)
    missing = [name for name in sorted(named) if f"--{name}" not in helps]
    checks.that(len(named) > 70 and not missing, f"--help leaves out {missing} of {len(named)}")


def check_config(program, work, checks):
    """A file of options is the same as the command line, which wins."""
    options = {"data": f"{work}/rows.tsv", "epochs": 2, "batch_size": "16", "learning-rate": 0.002,
               "decay_all": True, "keep_best": False, "seed": 7, "precision": "bf16"}
    (work / "options.json").write_text(json.dumps(options))
    line = [f"--data={work}/rows.tsv", "--epochs=2", "--batch-size=16", "--learning-rate=0.002",
            "--decay-all", "--seed=7", "--precision=bf16"]
    config = f"--config={work}/options.json"
    hashes = {}
    for name, arguments in {"line": line, "file": [config],
                            "line wins": ["--seed=8", config, "--epochs=1"],
                            "all on the line": [*line, "--seed=8", "--epochs=1"]}.items():
        log = work / "config.jsonl"
        tool.must_run(program, [*TRAIN, *arguments, f"--log-json={log}"])
        hashes[name] = tool.weights_hash(log)
    checks.that(hashes["line"] == hashes["file"], f"{hashes}")
    checks.that(hashes["line wins"] == hashes["all on the line"] != hashes["line"], f"{hashes}")


def main():
    program, work = os.path.abspath(sys.argv[1]), tool.fresh_folder(Path(sys.argv[2]).absolute())
    (work / "rows.tsv").write_bytes(tool.rows())
    model = str(work / "model")
    tool.must_run(program, [*TRAIN, f"--data={work}/rows.tsv", f"--output={model}"])
    checks = tool.Checks()
    check_streaming(program, model, checks)
    check_lines(program, model, work, checks)
    check_files(program, model, work, checks)
    check_closed_pipe(program, model, checks)
    check_signals(program, model, work, checks)
    check_streams(program, model, work, checks)
    check_evaluate(program, model, work, checks)
    check_help(program, checks)
    check_config(program, work, checks)
    return checks.finish("predict, evaluate, help and config")


if __name__ == "__main__":
    sys.exit(main())
