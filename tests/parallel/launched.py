"""Running bert_classifier as several ranks: mpirun, its processes, and what a run left behind."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import program as tool  # noqa: E402  (beside the tests of the program)

SKIPPED = 77
# Open MPI's mpirun runs as root, and more ranks than cores, only if it is asked to; it must not bind
# ranks to cores then, nor look for ssh. Other launchers ignore its variables.
LAUNCHER = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_plm_rsh_agent": "",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # from version 5
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}
# Variables that would make this process, or its children, one of several.
OTHERS = ("OMPI_COMM_", "PMI_", "PMIX_", "SLURM_", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK")


def environment(extra=None):
    result = {key: value for key, value in tool.environment().items()
              if not key.startswith(OTHERS)}
    # Open MPI never frees what its modules allocate; other tests look for leaks of the same program.
    asan = {"ASAN_OPTIONS": ":".join(filter(None, [result.get("ASAN_OPTIONS"), "detect_leaks=0"]))}
    return {**result, **LAUNCHER, **asan, **(extra or {})}


def command(program, ranks, arguments, mpirun="mpirun"):
    """0 ranks: the program alone."""
    return [*([mpirun, "-n", str(ranks)] if ranks else []), str(program), *arguments]


def run(words, extra=None, timeout=600):
    return subprocess.run(words, env=environment(extra), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)


def start(words):
    return tool.Process(words, env=environment(), stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def skip_without(program, mpirun):
    """Ends the script where no ranks can be started here."""
    reason = None
    if shutil.which(mpirun) is None:
        reason = "no mpirun (on Debian: apt-get install libopenmpi-dev openmpi-bin)"
    elif run(command("true", 2, [], mpirun)).returncode != 0:
        reason = "mpirun cannot start two processes here"
    elif b"built without MPI" in run(command(program, 2, ["train", "--shards=1"], mpirun)).stderr:
        reason = "the program was built without MPI"
    if reason:
        print("SKIPPED:", reason)
        sys.exit(SKIPPED)


def printed_hash(result):
    """The weights hash that a run printed, once; None where it did not."""
    found = re.findall(rb"^  weights hash +([0-9a-f]{16})$", result.stdout, re.MULTILINE)
    return found[0].decode() if result.returncode == 0 and len(found) == 1 else None


def error_lines(text):
    """Of the program, without what mpirun says about them."""
    return [line for line in text.decode(errors="replace").split("\n")
            if re.search(r"\[[a-z]+\.[a-z_]+\]$", line)]


def parent_of(process):
    """0 where it has ended. Its name may hold anything, so what follows the last ) is read."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def ranks_of(mpirun, program):
    """Rank and id of the processes that an mpirun of ours has started, and that run the program."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or parent_of(entry) != mpirun.pid:
            continue
        try:
            if not os.path.samefile(f"/proc/{entry}/exe", program):
                continue
            settings = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has just ended
        for setting in settings:
            if setting.startswith(b"OMPI_COMM_WORLD_RANK="):
                found[int(setting.partition(b"=")[2])] = int(entry)
    return found


def wait_for_ranks(mpirun, program, count, seconds=30):
    """All ranks, or fewer where the run ends before."""
    end = time.monotonic() + seconds
    found = {}
    while len(found) < count and mpirun.poll() is None and time.monotonic() < end:
        found = ranks_of(mpirun, program)
    return found


def send(mpirun, program, rank, number):
    """A signal to one rank, if it is still a process of this mpirun. Returns whether it was."""
    process = ranks_of(mpirun, program).get(rank)
    if process is None:
        return False
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return False
    return True


def state_of(process):
    """As the kernel shows it: R runs, S and D wait, T is stopped, Z has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "-"


def end(mpirun, program, seconds=60):
    """Waits for mpirun. Where it does not end, it and its ranks are ended. Returns output, error, and
    who was left then: nothing where it ended in time."""
    try:
        return *mpirun.communicate(timeout=seconds), ""
    except subprocess.TimeoutExpired:
        ranks = ranks_of(mpirun, program)
        left = [f"mpirun {state_of(mpirun.pid)}"]
        left += [f"rank {rank} {state_of(process)}" for rank, process in sorted(ranks.items())]
        for process in ranks.values():
            os.kill(process, signal.SIGKILL)
        mpirun.kill()
        return *mpirun.communicate(), ", ".join(left)
