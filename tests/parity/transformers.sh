#!/usr/bin/env bash
# BERT's files are those of the transformers package: what it saves is loaded here with the same logits, and what is
# saved here it loads without a missing or unexpected name. Usage: bash tests/parity/transformers.sh PROGRAM WORK
# PROGRAM is bert_logits. WORK gets venv/ (gigabytes from PyPI: torch and transformers) and the models.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${1:?usage: transformers.sh PROGRAM WORK} work=${2:?usage: transformers.sh PROGRAM WORK}

skip() {
  printf 'SKIPPED: %s\n' "$*"
  exit 77
}

mkdir -p "$work"
python=$work/venv/bin/python
if ! "$python" -c 'import torch, transformers' 2>/dev/null; then
  python3 -m venv "$work/venv" >"$work/venv.log" 2>&1 ||
    skip "python3 -m venv failed (on Debian: apt-get install python3-venv); see $work/venv.log"
  "$python" -m pip install --disable-pip-version-check --retries 2 torch transformers >"$work/pip.log" 2>&1 ||
    skip "pip could not install torch and transformers from PyPI; see $work/pip.log"
fi

export HF_HUB_OFFLINE=1
cases=$("$python" -B "$here/transformers.py" prepare "$work/models")
for name in $cases; do
  folder=$work/models/$name
  "$program" "$folder/theirs" "$folder/ids.txt" "$folder/logits.npy" "$folder/ours"
done
"$python" -B "$here/transformers.py" compare "$work/models"
