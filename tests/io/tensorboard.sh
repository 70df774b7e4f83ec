#!/usr/bin/env bash
# The tensorboard package reads what EventFile writes. Usage: bash tests/io/tensorboard.sh PROGRAM WORK
# PROGRAM is write_events. WORK gets venv/ (from PyPI: tensorboard) and the events.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${1:?usage: tensorboard.sh PROGRAM WORK} work=${2:?usage: tensorboard.sh PROGRAM WORK}

# shellcheck source=tests/support/python.sh
source "$here/../support/python.sh"
python_with "$work" tensorboard
rm -rf "$work/events"
"$program" "$work/events"
"$python" -B "$here/read_events.py" "$work/events"
