#!/usr/bin/env bash
# Answers of a few texts on one thread: soma plain and packed, beside ONNX Runtime and PyTorch where a Python has them.
# Usage: bash bench/inference.sh [--models minilm,base] [--rounds N] [--python PYTHON] [--program SOMA_INFERENCE]
# Models have random weights; CPU milliseconds, alternated, medians of N rounds (9). Ratios are other / soma packed.
# Needs build/release/bin/soma_inference. PYTHON (default python3) may have torch, onnx and onnxruntime; what it lacks is left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set /s/^# //p' bench/inference.sh && exit 0 ;; esac
python=python3
arguments=()
while [ $# -gt 0 ]; do
  case "$1" in
    --python) python=$2 && shift 2 ;;
    *) arguments+=("$1") && shift ;;
  esac
done
exec "$python" -B bench/yardstick/inference.py "${arguments[@]}"
