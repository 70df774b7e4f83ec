"""The character model learns as PyTorch's does in float64, and writes the same text from any number of threads.

    python3 character_model.py PROGRAM WORK_FOLDER LICENSE
"""

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import program as tool  # noqa: E402  (it lies one folder up)

MOST = 1e-5  # of a loss: the bar


def main():
    program, work, text = sys.argv[1], tool.fresh_folder(Path(sys.argv[2])), sys.argv[3]
    checks = tool.Checks()
    run = ["--text", text, "--steps=50", "--every=1"]
    wanted = json.loads(Path(__file__).with_name("losses.json").read_text())["losses"]
    outputs = [tool.must_run(program, [*run, f"--threads={threads}", "--save=a.safetensors",
                                       "--plot=a.svg"], folder=work).stdout.decode()
               for threads in (1, 3)]
    checks.that(outputs[0] == outputs[1], "three threads learn or write something else")
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", outputs[0])]
    worst = max(abs(own - other) for own, other in zip(losses, wanted))
    print(f"the largest distance from float64: {worst:.2e}")
    checks.that(len(losses) == len(wanted) == 50 and worst <= MOST, f"losses {losses[:3]}, {worst}")
    checks.that(losses[-1] < losses[0] - 0.5, f"nothing is learnt: {losses[-1]}")
    checks.that((work / "a.svg").read_text().count("<polyline") >= 3, "the curves are drawn")
    # The saved model writes the same text as the model right after training.
    written = outputs[0].split("loss")[-1].split("\n", 1)[1]
    again = tool.must_run(program, ["--text", text, "--load=a.safetensors", "--steps=0"], folder=work)
    checks.that(again.stdout.decode() == written and len(written) >= 400, "the saved model writes the same")
    other = tool.must_run(program, ["--text", text, "--load=a.safetensors", "--steps=0", "--seed=2"],
                          folder=work).stdout.decode()
    checks.that(other != written, "another seed writes something else")
    (work / "short.txt").write_text("ab" * 20)
    result = tool.run(program, ["--text=short.txt"], folder=work)
    checks.that(result.returncode == 1 and result.stderr.endswith(b"[data.empty]\n"), f"{result.stderr}")
    return checks.finish("character_model")


if __name__ == "__main__":
    sys.exit(main())
