"""Texts beyond --memory-limit: train --model-kind fast streams them, says so, and stays below the limit.

    python3 fast_stream.py PROGRAM WORK_FOLDER

The peak of the process counts beside that of a run which is refused when it has read the rows.
"""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import program as tool

MEBIBYTE = 1 << 20
LIMIT = 32 * MEBIBYTE


def write_texts(path, count, seed):
    """Twenty words of 20,000, frequent ones more often; one of them, in most texts two, belong to the class."""
    draw = random.Random(seed)
    letters = random.Random(0)
    words = ["".join(letters.choices("abcdefghijklmnop", k=4 + i % 6)) for i in range(20_000)]
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count):
            label = draw.randrange(4)
            text = [words[int(20_000 ** draw.random()) - 1] for _ in range(20)]
            for place in draw.sample(range(20), 2):
                text[place] = words[400 + 4 * draw.randrange(100) + label]
            file.write(f"{' '.join(text)}\tclass {label}\n")


def peak(program, work, *options):
    """Exit code, the peak of resident memory in bytes, and what the run says."""
    log = work / "log"
    with open(log, "wb") as file:
        process = subprocess.Popen([program, "train", "--model-kind=fast", "--threads=1", "--epochs=1", "--header=no",
                                    f"--data={work / 'train.tsv'}", *options],
                                   stdout=file, stderr=file, env=tool.environment())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_maxrss * 1024, log.read_text()


def main():
    program, work = sys.argv[1], tool.fresh_folder(Path(sys.argv[2]))
    checks = tool.Checks()
    write_texts(work / "train.tsv", 6000, 1)
    write_texts(work / "test.tsv", 500, 2)
    code, rows, said = peak(program, work, "--memory-limit=100")
    checks.that(code == 1 and "memory.exhausted" in said, f"nothing fits: {code}, {said}")
    test = f"--dev={work / 'test.tsv'}"

    def accuracy(said):
        return float(re.search(r"held out: +accuracy +([0-9.]+)", said).group(1))

    code, whole, solved = peak(program, work, test)
    checks.that(code == 0 and "sampled" not in solved, f"in memory: {code}, {solved}")
    checks.that(whole - rows > LIMIT, f"rows in memory take {whole - rows} bytes: the limit tests nothing")
    code, streamed, said = peak(program, work, test, f"--memory-limit={LIMIT}")
    checks.that(code == 0 and re.search(r"features of [0-9]+ sampled rows of 6000", said)
                and f"the limit is {LIMIT}" in said, f"stream: {code}, {said}")
    checks.that(streamed - rows <= LIMIT, f"a stream takes {streamed - rows} bytes, the limit is {LIMIT}")
    # 500 answers: two standard deviations are at most 0.045.
    checks.that(accuracy(said) > accuracy(solved) - 0.05, f"accuracy {accuracy(said)}, solver {accuracy(solved)}")
    print(f"in memory {(whole - rows) / MEBIBYTE:.1f} MiB, {accuracy(solved)}; "
          f"stream {(streamed - rows) / MEBIBYTE:.1f} MiB, {accuracy(said)}")
    return checks.finish("fast_stream")


if __name__ == "__main__":
    sys.exit(main())
