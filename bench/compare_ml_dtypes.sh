#!/usr/bin/env bash
# soma's conversions beside those of ml_dtypes (NumPy's narrow formats), alternated seven times, medians.
# Usage: bash bench/compare_ml_dtypes.sh        Needs build/release/bin/soma_bench, python3-venv and the package index.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set /s/^# //p' bench/compare_ml_dtypes.sh && exit 0 ;; esac
venv=build/ml_dtypes-venv
bench=build/release/bin/soma_bench
[ -x "$bench" ] || { echo "build it first: cmake --preset release && cmake --build build/release" >&2; exit 2; }
if ! "$venv/bin/python" -c 'import ml_dtypes' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet ml_dtypes numpy
fi
exec "$venv/bin/python" - "$bench" <<'PYTHON'
import json, statistics, subprocess, sys, time
import ml_dtypes, numpy

COUNT = 4096
values = numpy.random.default_rng(1).standard_normal(COUNT).astype(numpy.float32)
formats = {"bf16": ml_dtypes.bfloat16, "fp8_e3m4": ml_dtypes.float8_e3m4, "fp8_e4m3": ml_dtypes.float8_e4m3,
           "fp8_e4m3fn": ml_dtypes.float8_e4m3fn, "fp8_e5m2": ml_dtypes.float8_e5m2}

def python_rate(dtype):
    rounds = 200
    start = time.perf_counter()
    for _ in range(rounds):
        values.astype(dtype)
    return COUNT * rounds / (time.perf_counter() - start) * 1e-9

def soma_rates():
    text = subprocess.run([sys.argv[1], "--benchmark_filter=convert/fp32_to_.*/nearest/cache", "--benchmark_format=json",
                           "--benchmark_min_time=0.02"], capture_output=True, text=True, check=True).stdout
    return {row["name"].split("/")[1].removeprefix("fp32_to_"): row["elements/ns"] * 1.0
            for row in json.loads(text)["benchmarks"]}

ours, theirs = {name: [] for name in formats}, {name: [] for name in formats}
for _ in range(7):
    rates = soma_rates()
    for name, dtype in formats.items():
        ours[name].append(rates[name])
        theirs[name].append(python_rate(dtype))
print(f"{'fp32 to':12s} {'soma':>8s} {'ml_dtypes':>10s} {'ratio':>7s}   elements/ns, {COUNT} elements, one thread")
for name in formats:
    ratio = statistics.median(a / b for a, b in zip(ours[name], theirs[name]))
    print(f"{name:12s} {statistics.median(ours[name]):8.2f} {statistics.median(theirs[name]):10.3f} {ratio:7.1f}")
PYTHON
