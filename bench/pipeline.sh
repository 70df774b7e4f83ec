#!/usr/bin/env bash
# Measures the costs and savings of a pipeline of two stages, beside one process with one thread; medians of alternating rounds.
# Usage: bash bench/pipeline.sh [--rounds N] [--bert-base]
# --bert-base also compares the heap of a rank (some minutes, 6 GB). Needs build/release/bin/soma_pipeline; a quiet machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set /s/^# //p' bench/pipeline.sh && exit 0 ;; esac
program=build/release/bin/soma_pipeline
[ -x "$program" ] || { echo "build it first: cmake --preset release && cmake --build build/release" >&2; exit 2; }
exec "$program" "$@"
