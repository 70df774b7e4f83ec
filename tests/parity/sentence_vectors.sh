#!/usr/bin/env bash
# Vectors of sentences beside sentence-transformers (sentence_vectors.py). Usage: bash tests/parity/sentence_vectors.sh
# PROGRAM WORK; PROGRAM is bert_classifier. WORK gets venv/ (gigabytes from PyPI) and the models.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${1:?usage: sentence_vectors.sh PROGRAM WORK} work=${2:?usage: sentence_vectors.sh PROGRAM WORK}

skip() {
  printf 'SKIPPED: %s\n' "$*"
  exit 77
}

mkdir -p "$work"
python=$work/venv/bin/python
if ! "$python" -c 'import sentence_transformers' 2>/dev/null; then
  python3 -m venv "$work/venv" >"$work/venv.log" 2>&1 ||
    skip "python3 -m venv failed (on Debian: apt-get install python3-venv); see $work/venv.log"
  "$python" -m pip install --disable-pip-version-check --retries 2 sentence-transformers >"$work/pip.log" 2>&1 ||
    skip "pip could not install sentence-transformers from PyPI; see $work/pip.log"
fi
"$python" -B "$here/sentence_vectors.py" "$program" "$work"
