"""The files of examples/distributed/ for clusters: their syntax, and that the program has the options
that they pass.

    python3 distributed.py PROGRAM FOLDER
"""

import re
import subprocess
import sys
from pathlib import Path

import program as tool

# Options of the launchers, not of the program.
OTHERS = {"--mpi", "--map-by", "--cpus-per-task", "--bind-to", "--allow-run-as-root"}
RANKS = {"--bucket-size", "--no-overlap", "--shard-optimizer", "--time-limit", "--threads"}


def options_of(text):
    """Without comments, in which launchers' options are explained."""
    lines = [re.sub(r"(^|\s)#.*", "", line) for line in text.split("\n")]
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", "\n".join(lines)))


def check_options(name, text, known, checks):
    used = options_of(text) - OTHERS
    checks.that(len(used) >= 2, f"{name} passes {sorted(used)}")
    checks.that(used <= known, f"{name}: no options of train: {sorted(used - known)}")


def number_behind(name, words):
    return int(words[words.index(name) + 1])


def check_job(path, checks):
    try:
        import yaml
    except ImportError:
        print("SKIPPED, a part: the YAML is not parsed, PyYAML is not there")
        return
    job = yaml.safe_load(path.read_text())
    checks.that((job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob"), "an MPIJob")
    replicas = job["spec"]["mpiReplicaSpecs"]
    command = replicas["Launcher"]["template"]["spec"]["containers"][0]["command"]
    ranks = number_behind("-n", command)
    there = replicas["Worker"]["replicas"] * job["spec"]["slotsPerWorker"]
    checks.that(ranks == there, f"{path.name}: {ranks} ranks in {there} slots")
    shards = int(next(word for word in command if word.startswith("--shards=")).partition("=")[2])
    checks.that(ranks & (ranks - 1) == 0 and ranks <= shards, f"{ranks} ranks, {shards} shards")
    limit = replicas["Worker"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"]
    checks.that(f"--threads={limit}" in command, f"{path.name}: threads beside {limit} cores")
    checks.that(all(isinstance(word, str) for word in command), f"{path.name}: {command}")


def main():
    program, folder = sys.argv[1], Path(sys.argv[2])
    checks = tool.Checks()
    help_text = tool.must_run(program, ["train", "--help"]).stdout.decode()
    known = options_of(help_text)
    checks.that(RANKS <= known, f"help lacks {sorted(RANKS - known)}")
    script, job, text = (folder / name for name in ("slurm.sh", "mpijob.yaml", "README.md"))
    parsed = subprocess.run(["bash", "-n", script], stderr=subprocess.PIPE)
    checks.that(parsed.returncode == 0, f"{script.name}: {parsed.stderr}")
    check_options(script.name, script.read_text(), known, checks)
    check_options(job.name, job.read_text(), known, checks)
    # Its mpirun lines, from the program on.
    lines = re.findall(r"bert_classifier train(.*)", text.read_text())
    checks.that(len(lines) >= 2, f"{text.name} has {len(lines)} commands")
    for line in lines:
        check_options(f"{text.name}:{line}", line, known, checks)
    check_job(job, checks)
    return checks.finish("distributed")


if __name__ == "__main__":
    sys.exit(main())
