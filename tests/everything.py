"""Every suite of the project, one after the other; what came of each is a row of docs/lab/everything.md.

A suite that has passed, or has been skipped, on this state of the project and this kind of CPU is not run again, so a run
that was stopped goes on where it was, here or on another machine that has the page. A failure stops nothing.
"""

import argparse
import dataclasses
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path("docs/lab/everything.md")
LOGS = Path("build/everything")
SKIPPED = 77

HEAD = """# What was run, where, and what came of it

`bash tests/everything.sh` runs the suites below and writes this page; `--hours N` stops after so many hours, and the next
run goes on. *state* is the last commit that changed anything else than this page, with a `+` where files were changed and
not committed. A row stays until its suite runs again, so an old state means: not run since. What a suite prints is in
`build/everything/`.

| suite | result | tests | seconds | CPU | state | day | reason |
|---|---|---|---|---|---|---|---|
"""


@dataclasses.dataclass
class Suite:
    name: str
    command: list


@dataclasses.dataclass
class Row:
    suite: str
    result: str  # passed, failed, skipped
    tests: str = ""
    seconds: str = ""
    cpu: str = ""
    state: str = ""
    day: str = ""
    reason: str = ""

    def line(self):
        cells = [str(cell).replace("|", "/").replace("\n", " ") for cell in dataclasses.astuple(self)]
        return "| " + " | ".join(cells) + " |\n"


def read_rows(page):
    """The rows of a page by their suites, in the page's order."""
    rows = {}
    if page.exists():
        for line in page.read_text().splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if line.startswith("| ") and len(cells) == len(dataclasses.fields(Row)) and cells[0] != "suite":
                rows[cells[0]] = Row(*cells)
    return rows


def write_row(page, row, order):
    """Puts a row in its place, beside those that the page has now: another run may have written some in the meantime.

    Rows of suites that `order` does not name come last. A run that is killed leaves the page before or after, and nothing
    between.
    """
    rows = read_rows(page)
    rows[row.suite] = row
    names = [name for name in order if name in rows] + [name for name in rows if name not in order]
    text = HEAD + "".join(rows[name].line() for name in names)
    new = page.with_suffix(".new")
    new.write_text(text)
    os.replace(new, page)


def state(root, page=PAGE):
    """The last commit that changed anything but the page, and + where there are changes beside it."""
    others = ["--", ".", f":(exclude){page}"]
    git = lambda *arguments: subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True, text=True).stdout
    changed = git("status", "--porcelain", *others).strip()
    return git("log", "-1", "--format=%h", *others).strip() + ("+" if changed else "")


def kind_of_cpu():
    """Its name, and the widest of the instruction sets that change which kernels run."""
    fields = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    flags = fields.get("flags", fields.get("Features", "")).split()
    sets = [name for name in ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "asimd") if name in flags]
    model = f"family {fields.get('cpu family', '?')} model {fields.get('model', '?')}"
    return f"{fields.get('model name', os.uname().machine)} {model}, {sets[0] if sets else 'no vectors'}"


def judged(code, output):
    """The result of a suite, its number of tests and, unless it has passed, the reason."""
    lines = [line for line in output.splitlines() if line.strip()]
    counts = re.search(r"(\d+) tests failed out of (\d+)", output)
    tests = counts[2] if counts else ""
    failed = re.findall(r"^\s*\d+ - (\S.*?) \((?:Failed|Timeout|SEGFAULT|Subprocess aborted|Not Run|ILLEGAL|SIGABRT)\)", output, re.M)
    skipped = re.findall(r"^\s*\d+ - (\S.*?) \(Skipped\)", output, re.M)
    said = [line.strip() for line in lines if re.search(r"\bskip", line, re.I) and "(Skipped)" not in line and "***" not in line]
    if code == SKIPPED or (counts and skipped and len(skipped) == int(tests)):
        return "skipped", "", re.sub(r"^\d+: *", "", said[0])[:160] if said else "no reason was printed"
    if code != 0:
        return "failed", tests, (", ".join(failed) or (lines[-1] if lines else f"exit code {code}"))[:300]
    return "passed", tests, ("skipped: " + ", ".join(skipped))[:300] if skipped else ""


def run(suite, log, deadline):
    """Exit code (None: the time was up) and seconds. All that a suite has started ends with it."""
    start = time.monotonic()
    with open(log, "wb") as output:
        process = subprocess.Popen(suite.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(None if deadline is None else max(1.0, deadline - start))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    return code, time.monotonic() - start


def run_all(suites, page, logs, now, cpu, *, order=(), hours=None, again=False):
    """Runs the suites that this state and CPU have not seen to their end. Returns how many have failed.

    `order` names the suites whose rows the page may have, in its order.
    """
    logs.mkdir(parents=True, exist_ok=True)
    rows, failures = read_rows(page), 0
    order = order or [suite.name for suite in suites]
    deadline = None if hours is None else time.monotonic() + hours * 3600
    for i, suite in enumerate(suites):
        row = rows.get(suite.name)
        if not again and row and row.state == now and row.cpu == cpu and row.result != "failed" and "+" not in now:
            print(f"[{i + 1}/{len(suites)}] {suite.name}: {row.result} before", flush=True)
            continue
        if deadline is not None and time.monotonic() >= deadline:
            print(f"[{i + 1}/{len(suites)}] {suite.name}: the time is up", flush=True)
            continue
        print(f"[{i + 1}/{len(suites)}] {suite.name} ...", flush=True)
        log = logs / (suite.name.replace("/", "_").replace(" ", "_") + ".log")
        code, seconds = run(suite, log, deadline)
        if code is None:
            print("  stopped: the time is up", flush=True)
            continue
        result, tests, reason = judged(code, log.read_text(errors="replace"))
        failures += result == "failed"
        day = datetime.date.today().isoformat()
        write_row(page, Row(suite.name, result, tests, f"{seconds:.0f}", cpu, now, day, reason), order)
        print(f"  {result} in {seconds:.0f} s{': ' + reason if reason else ''}", flush=True)
    return failures


def slow_tests():
    """The names of the slow suite's tests, as the configured build has them."""
    listed = subprocess.run(["ctest", "--test-dir", "build/tests", "-C", "slow", "-L", "^slow$", "--show-only=json-v1"], cwd=ROOT,
                            capture_output=True, text=True)
    start = listed.stdout.find("{")
    return [test["name"] for test in json.loads(listed.stdout[start:])["tests"]] if listed.returncode == 0 and start >= 0 else []


def all_suites():
    suites = [Suite("ordinary", ["bash", "tests/run.sh"])]
    for name in slow_tests():
        suites.append(Suite(f"slow {name}", ["ctest", "--test-dir", "build/tests", "-C", "slow", "-R", f"^{re.escape(name)}$", "-V"]))
    suites += [Suite(preset, ["bash", "tests/run.sh", "--preset", preset]) for preset in ("asan", "ubsan", "tsan", "dev-clang")]
    suites += [Suite(f"fuzz {source.stem.removesuffix('_fuzz')}", ["bash", "fuzz/run.sh", "600", source.stem.removesuffix("_fuzz")])
               for source in sorted((ROOT / "fuzz").glob("*_fuzz.cpp"))]
    for release in ("bookworm", "trixie"):
        for what in ("examples", "tests", "packaging", "first_step"):
            suites.append(Suite(f"fresh {release} {what}", ["bash", "tests/fresh_machine.sh", release, what, "--skip", "--host-certs"]))
    release = "cmake --preset release && cmake --build build/release"
    suites += [Suite("release build", ["bash", "-c", release]),
               Suite("yardstick growth", ["bash", "bench/growth.sh", "--quick"]),
               Suite("yardstick inference", ["bash", "bench/inference.sh", "--models", "tiny,minilm", "--rounds", "3"]),
               Suite("yardstick compare_pytorch", ["bash", "bench/compare_pytorch.sh", "--rounds", "1"])]
    return suites


def main():
    parser = argparse.ArgumentParser(prog="tests/everything.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, metavar="N", help="begin nothing, and stop what runs, after so many hours")
    parser.add_argument("--only", default="", metavar="PATTERN", help="suites in whose name this regular expression is found")
    parser.add_argument("--again", action="store_true", help="also suites that this state has passed")
    parser.add_argument("--list", action="store_true", help="print the suites, and what is known of each")
    options = parser.parse_args()
    if not (ROOT / "build/tests/CTestTestfile.cmake").exists():
        print("the slow suite's tests are known after the first build: bash tests/run.sh --slow -N", file=sys.stderr)
    known = all_suites()
    suites = [suite for suite in known if re.search(options.only, suite.name)]
    rows = read_rows(ROOT / PAGE)
    if options.list:
        for suite in suites:
            row = rows.get(suite.name)
            print(f"{suite.name}: {f'{row.result}, {row.state}, {row.day}' if row else 'never run'}")
        return 0
    return min(1, run_all(suites, ROOT / PAGE, ROOT / LOGS, state(ROOT), kind_of_cpu(), order=[suite.name for suite in known],
                          hours=options.hours, again=options.again))


if __name__ == "__main__":
    sys.exit(main())
