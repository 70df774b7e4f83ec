#!/usr/bin/env bash
# BERT's files are those of the transformers package: what it saves is loaded here with the same logits, and what is
# saved here it loads without a missing or unexpected name. Usage: bash tests/parity/transformers.sh PROGRAM WORK
# PROGRAM is bert_logits. WORK gets venv/ (gigabytes from PyPI: torch and transformers) and the models.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${1:?usage: transformers.sh PROGRAM WORK} work=${2:?usage: transformers.sh PROGRAM WORK}

# shellcheck source=tests/support/python.sh
source "$here/../support/python.sh"
python_with "$work" torch transformers

export HF_HUB_OFFLINE=1
cases=$("$python" -B "$here/transformers.py" prepare "$work/models")
for name in $cases; do
  folder=$work/models/$name
  "$program" "$folder/theirs" "$folder/ids.txt" "$folder/logits.npy" "$folder/ours"
done
"$python" -B "$here/transformers.py" compare "$work/models"
