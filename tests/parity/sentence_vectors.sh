#!/usr/bin/env bash
# Vectors of sentences beside sentence-transformers (sentence_vectors.py). Usage: bash tests/parity/sentence_vectors.sh
# PROGRAM WORK; PROGRAM is bert_classifier. WORK gets venv/ (gigabytes from PyPI) and the models.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${1:?usage: sentence_vectors.sh PROGRAM WORK} work=${2:?usage: sentence_vectors.sh PROGRAM WORK}

# shellcheck source=tests/support/python.sh
source "$here/../support/python.sh"
python_with "$work" sentence-transformers
"$python" -B "$here/sentence_vectors.py" "$program" "$work"
