#!/usr/bin/env bash
# How the time and the memory of a training step grow: one factor at a time around 8 x 128 tokens, width 256, 4 layers, 2 classes.
# Usage: bash bench/growth.sh [--quick] [--factors REGEX] [--threads N] [--markdown]
# About 30 minutes on two cores; --quick: about 2 minutes, fewer points and one run of each.
# Needs build/release/bin/soma_growth. Seconds of CPU are of some use where the machine has other work; those of the clock are not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set /s/^# //p' bench/growth.sh && exit 0 ;; esac
program=${SOMA_GROWTH:-build/release/bin/soma_growth}
[ -x "$program" ] || { echo "build it first: cmake --preset release && cmake --build build/release" >&2; exit 2; }
exec python3 bench/yardstick/growth.py "$program" "$@"
