"""A training with --partitions auto stays below --memory-limit: what the program refuses, names and needs.

    python3 memory_limit.py PROGRAM WORK_FOLDER [--models]

The peak of the process is measured, and where this process may make a control group, the program trains in one with that
limit. --models: also models of the sizes small and minilm, with random weights.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import program as tool

MEBIBYTE = 1 << 20
HUGE_PAGE = 2 * MEBIBYTE
BASE = ["--threads=1", "--quiet", "--max-length=32", "--batch-size=32", "--learning-rate=1e-4"]
RUNS = {
    "plain": ["--vocab-size=1000", "--max-steps=8"],
    "copies": ["--vocab-size=1000", "--max-steps=8", "--keep-best", "--evaluate-every=3", "--average=0.9"],
    "files": ["--vocab-size=1000", "--max-steps=8", "--output=model", "--checkpoint=saved", "--checkpoint-every=3",
              "--keep-best", "--evaluate-every=3"],
    "bf16_sr": ["--vocab-size=1000", "--max-steps=8", "--precision=bf16_sr"],
}
MODELS = {
    "small": ["--preset=small", "--vocab-size=2000", "--max-steps=3", "--max-length=64"],
    "minilm": ["--preset=minilm", "--vocab-size=2000", "--max-steps=3", "--max-length=64"],
    "minilm, saved": ["--preset=minilm", "--vocab-size=2000", "--max-steps=3", "--max-length=64", "--output=model",
                      "--checkpoint=saved", "--checkpoint-every=2"],
}


@contextlib.contextmanager
def control_group(limit):
    """The file that a process writes itself into, for a group of so many bytes; None: there are none to be had."""
    folder = None
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if names == "memory":
                root, files = Path("/sys/fs/cgroup/memory"), ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
            elif names == "":
                root, files = Path("/sys/fs/cgroup"), ["memory.max"]
            else:
                continue
            parent = root / path.lstrip("/")
            if not (parent / files[0]).exists() and names == "":
                continue
            folder = Path(tempfile.mkdtemp(prefix="soma_limit_", dir=parent))
            for name in files:
                if (folder / name).exists() or name == files[0]:
                    (folder / name).write_text(str(limit))
            break
    except OSError:
        if folder is not None:
            folder.rmdir()
        folder = None
    try:
        yield None if folder is None else folder / "cgroup.procs"
    finally:
        if folder is not None:
            folder.rmdir()


def train(program, folder, arguments, group=None):
    """Exit code, standard error, and the most resident bytes."""
    command = [program, "train", "--data=rows.tsv", "--partitions=auto", *BASE, *arguments]
    join = None if group is None else lambda: group.write_text("0")
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=join,
                          env=tool.environment()) as process:
        errors = process.stderr.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, errors, used.ru_maxrss * 1024


def check_run(program, folder, name, arguments, checks):
    def fresh(limit, group=None):
        tool.fresh_folder(folder)
        (folder / "rows.tsv").write_bytes(tool.rows(400))
        return train(program, folder, [*arguments, f"--memory-limit={limit}"], group)

    code, errors, peak = fresh(MEBIBYTE)
    found = re.search(r"at least (\d+) bytes \[parallel\.plan\]", errors)
    checks.that(code == 1 and found, f"{name}: a limit of a mebibyte: {code}, {errors}")
    if not found:
        return None
    limit = int(found[1])
    checks.that(peak <= limit, f"{name}: {peak} bytes to refuse, {limit} to train")
    checks.that(not (folder / "saved").exists() and not (folder / "model").exists(), f"{name}: a refused run has files")
    # The smallest row needs a mebibyte less than the number that is named. What the process itself takes is measured in
    # each run, and a huge page of two mebibytes is there in one run and not in the next.
    code, errors, _ = fresh(limit - 2 * MEBIBYTE - HUGE_PAGE)
    checks.that(code == 1 and "parallel.plan" in errors, f"{name}: a mebibyte below the smallest row: {code}, {errors}")
    code, errors, peak = fresh(limit - 2 * MEBIBYTE)
    checks.that(code == 1 and "parallel.plan" in errors or code == 0 and peak <= limit - 2 * MEBIBYTE,
                f"{name}: neither refused nor below its limit: {code}, {peak} of {limit - 2 * MEBIBYTE}, {errors}")
    code, errors, peak = fresh(limit)
    checks.that(code == 0, f"{name}: the smallest limit: {code}, {errors}")
    checks.that(peak <= limit, f"{name}: {peak} bytes, limit {limit}")
    checks.that(peak >= limit / 2, f"{name}: a limit of {limit} bytes for {peak}")
    print(f"{name}: limit {limit / MEBIBYTE:.1f} MiB, peak {peak / MEBIBYTE:.1f} MiB", flush=True)
    with control_group(limit) as group:
        if group is None:
            return None
        code, errors, _ = fresh(limit, group)
        checks.that(code == 0, f"{name}: in a control group of that limit: {code}, {errors}")
    return limit, fresh


def main():
    program, folder = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    checks = tool.Checks()
    held = None
    for name, arguments in (MODELS if "--models" in sys.argv else RUNS).items():
        held = check_run(program, folder, name, arguments, checks) or held
    if held is None:
        print("no control group can be made here: peaks were measured only")
    else:
        limit, fresh = held
        with control_group(limit // 3) as group:
            code, _, _ = fresh(limit, group)
        checks.that(code == -9, f"a third of the limit does not end the process: the group does not hold it ({code})")
    sys.exit(checks.finish("memory limit"))


if __name__ == "__main__":
    main()
