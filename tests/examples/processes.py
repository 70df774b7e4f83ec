#!/usr/bin/env python3
"""A test leaves no process behind (program.py): neither one that passes, nor one that fails or is ended."""

import os
import signal
import subprocess
import sys
import time

import program as tool

# Starts a process, and through a shell that ends at once one of another session and another parent; prints both ids.
BEGINNING = """
import os, signal, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
import program as tool
sleeps = tool.Process([sys.executable, "-c", "import time; time.sleep(600)"])
shell = subprocess.run(["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE, text=True)
print(sleeps.pid, shell.stdout.strip(), flush=True)
"""
ENDINGS = {
    "passes": "",
    "fails": "raise AssertionError('on purpose')",
    "fails in a block": "with sleeps: raise AssertionError('on purpose')",
    "exits": "sys.exit(3)",
    "is ended": "os.kill(os.getpid(), signal.SIGTERM); time.sleep(600)",
}


def runs(process):
    """False also for one that has ended and whose parent has not asked for it yet."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def main():
    checks = tool.Checks()
    here = os.path.dirname(os.path.abspath(__file__))
    for name, ending in ENDINGS.items():
        begin = time.monotonic()
        result = subprocess.run([sys.executable, "-B", "-c", BEGINNING + ending, here], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, timeout=60)
        started = [int(word) for word in result.stdout.split()]
        checks.that(len(started) == 2, f"a test that {name} has started {started}, {result.stderr}")
        checks.that((result.returncode == 0) == (name == "passes"), f"a test that {name}: {result.returncode}")
        # A killed process may be seen for a moment on a busy machine.
        deadline = time.monotonic() + 5
        while (left := [process for process in started if runs(process)]) and time.monotonic() < deadline:
            time.sleep(0.02)
        checks.that(not left, f"a test that {name} leaves {left}")
        checks.that(time.monotonic() - begin < 30, f"a test that {name} waits for what it has started")
        for process in left:
            os.kill(process, signal.SIGKILL)
    return checks.finish("processes")


if __name__ == "__main__":
    sys.exit(main())
