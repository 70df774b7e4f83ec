#!/usr/bin/env bash
# The tensorboard package reads what EventFile writes. Usage: bash tests/io/tensorboard.sh PROGRAM WORK
# PROGRAM is write_events. WORK gets venv/ (from PyPI: tensorboard) and the events.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${1:?usage: tensorboard.sh PROGRAM WORK} work=${2:?usage: tensorboard.sh PROGRAM WORK}

skip() {
  printf 'SKIPPED: %s\n' "$*"
  exit 77
}

mkdir -p "$work"
python=$work/venv/bin/python
if ! "$python" -c 'import tensorboard' 2>/dev/null; then
  python3 -m venv "$work/venv" >"$work/venv.log" 2>&1 ||
    skip "python3 -m venv failed (on Debian: apt-get install python3-venv); see $work/venv.log"
  "$python" -m pip install --disable-pip-version-check --retries 2 tensorboard >"$work/pip.log" 2>&1 ||
    skip "pip could not install tensorboard from PyPI; see $work/pip.log"
fi
rm -rf "$work/events"
"$program" "$work/events"
"$python" -B "$here/read_events.py" "$work/events"
