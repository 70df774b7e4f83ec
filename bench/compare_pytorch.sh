#!/usr/bin/env bash
# soma's linear layers and training steps beside PyTorch's, alternated seven times, medians of the ratios.
# Usage: bash bench/compare_pytorch.sh [LENGTHS_FOLDER] [--cases REGEX] [--rounds N] [--threads N]
#        bash bench/compare_pytorch.sh --epoch BERT_CLASSIFIER MODEL_FOLDER TRAIN.tsv HELD_OUT.tsv [--rounds N] [--threads N]
# Needs build/release/bin/soma_yardstick, python3-venv and the package index (torch, transformers: gigabytes).
# LENGTHS_FOLDER holds lengths_sst2.txt and lengths_amazon_polarity.txt (word pieces of a text, one a line). Where none is
# given, that is ../shared/data; where that is not there, cases with reviews and sentences are left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set /s/^# //p' bench/compare_pytorch.sh && exit 0 ;; esac
venv=build/pytorch-venv
yardstick=build/release/bin/soma_yardstick
[ -x "$yardstick" ] || { echo "build it first: cmake --preset release && cmake --build build/release" >&2; exit 2; }
if ! "$venv/bin/python" -c 'import torch, transformers, tokenizers' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet torch transformers tokenizers
fi
default=()
if { [ $# -eq 0 ] || [ "${1#--}" != "$1" ]; } && [ -d ../shared/data ]; then default=(../shared/data); fi
exec "$venv/bin/python" bench/yardstick/compare.py "$yardstick" "${default[@]}" "$@"
