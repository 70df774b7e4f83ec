"""--precision with presets and files, and the study that compares them.

    python3 precision.py BERT_CLASSIFIER WORK_FOLDER PRECISION_STUDY
"""

import csv
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import program as tool


def presets(program):
    line = next(line for line in tool.must_run(program, ["describe"]).stdout.decode().splitlines()
                if line.startswith("precisions"))
    return line.split()[1:]


def check_files(program, work, checks):
    """A preset printed as JSON trains as the preset does; a changed one does not."""
    def weights(name, precision, threads):
        log = work / f"{name}.jsonl"
        tool.must_run(program, [*tool.THIRTY_STEPS, f"--precision={precision}", f"--log-json={log}",
                                f"--threads={threads}"])
        return tool.log_lines(log)[-1]["weights_hash"]

    names = presets(program)
    checks.that(len(names) == 17 and "mxfp8" in names, f"presets {names}")
    for name in names:
        text = tool.must_run(program, ["describe", f"--precision={name}"]).stdout.decode()
        checks.that(json.loads(text)["name"] == name, f"{name} prints {text[:80]}")
    changed = json.loads(tool.must_run(program, ["describe", "--precision=mxfp8"]).stdout)
    own = work / "own.json"
    own.write_text(json.dumps(changed))
    plain = weights("preset", "mxfp8", 1)
    checks.that(weights("file", own, 2) == plain, "mxfp8 from a file trains otherwise")
    changed["gemm_gradients"]["format"] = "fp8_e5m2"
    own.write_text(json.dumps(changed))
    checks.that(weights("changed", own, 2) != plain, "another format changes nothing")


def check_refusals(program, work, checks):
    for number, (text, words) in enumerate([
            ("{", "no JSON"), ('{"weigths": "bf16"}', "weigths"),
            ('{"gemm_weights": {"scaling": {"policy": "late"}}}', "gemm_weights.scaling.policy"),
            ('{"activations": {"format": "fp4_e2m1"}}', "activations.format")]):
        path = work / f"bad_{number}.json"
        path.write_text(text)
        result = tool.run(program, [*tool.THIRTY_STEPS, f"--precision={path}"])
        message = result.stderr.decode()
        checks.that(result.returncode == 1 and words in message and "[train.precision]" in message
                    and message.count("\n") == 1, f"{text}: {message}")
    result = tool.run(program, [*tool.THIRTY_STEPS, f"--precision={work / 'missing.json'}"])
    checks.that(result.returncode == 1 and b"[file.read]" in result.stderr, f"{result.stderr}")


def check_study(study, work, checks):
    output = work / "study"
    options = ["--reviews=300", "--seeds=2", "--max-steps=6", "--statistics-every=3",
               "--policies=fp32,bf16_nearest,mxfp8", f"--output={output}"]
    first = tool.must_run(study, options).stdout.decode()
    table = (output / "table.md").read_text()
    checks.that(table in first, "the table that is printed is not the one in the folder")
    with open(output / "table.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    checks.that([row["policy"] for row in rows] == ["fp32", "bf16_nearest", "mxfp8"], f"{rows}")
    by_name = {row["policy"]: {name: float(value) for name, value in row.items() if name != "policy"}
               for row in rows}
    checks.that(all(row["runs"] == 2 and row["peak_bytes"] > 0 and row["tokens_per_second"] > 0
                    for row in by_name.values()), f"{by_name}")
    checks.that(by_name["fp32"]["gap"] == 0 and by_name["fp32"]["underflow"] < 0, "fp32 converts nothing")
    checks.that(0 <= by_name["mxfp8"]["underflow"] < 0.1 and by_name["mxfp8"]["saturated"] >= 0 and
                15 < by_name["mxfp8"]["signal_to_noise_db"] < 50, f"{by_name['mxfp8']}")
    checks.that(by_name["fp32"]["unmoved"] < 0.05 < by_name["bf16_nearest"]["unmoved"],
                "bf16 weights stay where they are more often than fp32 ones")
    picture = ElementTree.parse(output / "curves.svg").getroot()
    lines = [element for element in picture.iter() if element.tag.endswith("polyline")]
    checks.that(len(lines) == 3 and all(line.get("points") for line in lines), "a curve a policy")

    # The same command has nothing left to do, and one with another seed does only that.
    before = (output / "runs.jsonl").read_text()
    again = tool.must_run(study, options)
    checks.that((output / "runs.jsonl").read_text() == before and again.stdout.decode() == first,
                "a finished study runs again")
    tool.must_run(study, [option.replace("seeds=2", "seeds=3") for option in options])
    after = (output / "runs.jsonl").read_text()
    checks.that(after.startswith(before) and after.count("\n") == before.count("\n") + 3,
                "one more seed is three more runs")
    result = tool.run(study, ["--policies=fp12"])
    checks.that(result.returncode == 1 and b"[train.precision]" in result.stderr, f"{result.stderr}")
    result = tool.run(study, ["--policies=fp32,fp32"])
    checks.that(result.returncode == 1 and b"[train.precision]" in result.stderr, f"{result.stderr}")
    result = tool.run(study, ["--seeds=0"])
    checks.that(result.returncode == 2 and b"[cli.usage]" in result.stderr, f"{result.stderr}")


def main():
    program, folder, study = sys.argv[1:4]
    work = tool.fresh_folder(Path(folder))
    checks = tool.Checks()
    check_files(program, work, checks)
    check_refusals(program, work, checks)
    check_study(study, work, checks)
    return checks.finish("precision")


if __name__ == "__main__":
    sys.exit(main())
