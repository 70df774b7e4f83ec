#!/usr/bin/env bash
# soma's linear layers and training steps beside PyTorch's, alternated seven times, medians of the ratios.
# Usage: bash bench/compare_pytorch.sh [LENGTHS_FOLDER] [--cases REGEX] [--rounds N] [--threads N]
#        bash bench/compare_pytorch.sh --epoch BERT_CLASSIFIER MODEL_FOLDER TRAIN.tsv HELD_OUT.tsv [--rounds N]
# Needs build/release/bin/soma_yardstick, python3-venv and the package index (PyTorch for the CPU). LENGTHS_FOLDER holds
# lengths_sst2.txt and lengths_amazon_polarity.txt (word pieces of a text, one a line); by default ../shared/data.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=build/pytorch-venv
yardstick=build/release/bin/soma_yardstick
[ -x "$yardstick" ] || { echo "build it first: cmake --preset release-portable && cmake --build build/release" >&2; exit 2; }
if ! "$venv/bin/python" -c 'import torch, transformers, tokenizers' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet torch transformers tokenizers
fi
lengths=../shared/data
if [ $# -gt 0 ] && [ "${1#--}" = "$1" ]; then
  lengths=$1
  shift
fi
[ -d "$lengths" ] || lengths=
exec "$venv/bin/python" bench/yardstick/compare.py "$yardstick" ${lengths:+"$lengths"} "$@"
