"""Tables end to end: learn, stop early, save, load, predict; and files that are wrong.

    python3 tabular_regression.py PROGRAM WORK_FOLDER
"""

import csv
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import program as tool  # noqa: E402  (it lies one folder up)


def rows(count, target=True):
    """y is a product, which no linear function is; categories shift it; some cells are missing."""
    lines = ["kind,a,b" + (",y" if target else "")]
    for i in range(count):
        a, b, kind = i * 7919 % 101 / 10, i * 104729 % 89 / 10, ("low", "high")[i % 2]
        cells = [kind, "NA" if i % 25 == 24 else str(a), str(b)]
        if target:
            cells.append(str(1000 + 10 * a * b + (200 if kind == "high" else 0)))
        lines.append(",".join(cells))
    return "\n".join(lines) + "\n"


def main():
    program, work = sys.argv[1], tool.fresh_folder(Path(sys.argv[2]))
    checks = tool.Checks()
    (work / "a.csv").write_text(rows(600))
    train = ["--data=a.csv", "--target=y", "--save=a.safetensors"]
    outputs = [tool.must_run(program, [*train, "--epochs=60", f"--threads={threads}", "--plot=a.svg"],
                             folder=work).stdout.decode() for threads in (1, 2)]
    same = [re.sub(r"(?m)^  (steps|tokens|training time|total time|peak memory).*\n", "", text) for text in outputs]
    checks.that(same[0] == same[1], f"two threads learn something else: {same}")
    r2 = float(re.search(r"R2 +(\S+)", outputs[0]).group(1))
    checks.that(r2 > 0.9, f"R2 is {r2}")
    checks.that("<polyline" in (work / "a.svg").read_text(), "the curves are drawn")

    # A file without the target, columns in another order: the predictions are those of the rows.
    plain = list(csv.DictReader(rows(600).splitlines()))
    (work / "b.csv").write_text("b,extra,kind,a\n" + "".join(
        f"{row['b']},x,{row['kind']},{row['a']}\n" for row in plain))
    predict = ["--load=a.safetensors", "--data=b.csv"]
    answers = [float(line) for line in tool.must_run(program, predict, folder=work).stdout.split()]
    checks.that(len(answers) == 600, f"{len(answers)} answers")
    known = [i for i in range(600) if plain[i]["a"] != "NA"]
    mean = sum(float(row["y"]) for row in plain) / 600
    errors = sum((answers[i] - float(plain[i]["y"])) ** 2 for i in known)
    spread = sum((mean - float(plain[i]["y"])) ** 2 for i in known)
    checks.that(errors < 0.05 * spread, f"predictions miss: {errors / spread}")

    # Patience ends a run that does not get better.
    output = tool.must_run(program, [*train, "--epochs=3000", "--patience=3"], folder=work).stdout.decode()
    steps = int(re.search(r"steps +(\d+)", output).group(1))
    checks.that(steps < 3000 * 8, f"no early stop: {steps} steps")

    (work / "bad.csv").write_text(rows(30) + "low,1,2,three\n")
    (work / "short.csv").write_text(rows(30) + "low,1\n")
    (work / "none.csv").write_text("kind,b\nlow,1\n")
    for arguments, message, code in [
            (["--data=bad.csv", "--target=y"], b'column "y" in line 32 of "bad.csv" is "three"', 1),
            (["--data=short.csv", "--target=y"], b"line 32 of", 1),
            (["--data=a.csv", "--target=z"], b"[table.column]", 1),
            (["--load=a.safetensors", "--data=none.csv"], b"[table.column]", 1),
            (["--load=a.safetensors"], b"--data", 2),
            (["--load=a.csv", "--data=a.csv"], b"[safetensors.header]", 1),
            (["--data=nowhere.csv"], b"[file.read]", 1)]:
        result = tool.run(program, arguments, folder=work)
        checks.that(result.returncode == code and message in result.stderr,
                    f"{arguments}: {result.returncode}, {result.stderr}")
    return checks.finish("tabular_regression")


if __name__ == "__main__":
    sys.exit(main())
