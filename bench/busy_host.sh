#!/usr/bin/env bash
# How much of its quiet speed soma keeps where the host's own threads compute on the same cores: training steps without and with busy
# loops beside them, alternated. With as many busy loops as cores the fair share is a half.
# Usage: bash bench/busy_host.sh [LENGTHS_FOLDER] [--cases REGEX] [--rounds N] [--seconds S] [--threads N] [--busy N]
#                                [--before YARDSTICK] [--pytorch PYTHON]
# Needs build/release/bin/soma_yardstick. --before: a yardstick of other sources, measured beside this one, also in quiet. --pytorch: a
# Python with torch and transformers, measured beside them (bench/compare_pytorch.sh makes build/pytorch-venv/bin/python).
# LENGTHS_FOLDER holds lengths_sst2.txt (word pieces of a text, one a line). Where none is given, that is ../shared/data; where that is not
# there, all sequences are 25 tokens long, about the mean of those.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set /s/^# //p' bench/busy_host.sh && exit 0 ;; esac
yardstick=${SOMA_YARDSTICK:-build/release/bin/soma_yardstick}
[ -x "$yardstick" ] || { echo "build it first: cmake --preset release && cmake --build build/release" >&2; exit 2; }
default=()
if { [ $# -eq 0 ] || [ "${1#--}" != "$1" ]; } && [ -d ../shared/data ]; then default=(../shared/data); fi
exec python3 bench/yardstick/busy.py "$yardstick" "${default[@]}" "$@"
