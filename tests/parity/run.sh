#!/usr/bin/env bash
# Prepares the inputs and runs the parity test. Usage: bash tests/parity/run.sh PROGRAM WORK
# SOMA_SHARED names the folder with the oracle and its data; by default it lies beside the checkout.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${1:?usage: run.sh PROGRAM WORK} work=${2:?usage: run.sh PROGRAM WORK}
shared=${SOMA_SHARED:-$here/../../../shared}
oracle=$shared/data/oracle/minilm_sst2_20_steps.json
if [ ! -r "$oracle" ]; then
  echo "SKIPPED: no $oracle (SOMA_SHARED names the folder that has data/oracle)"
  exit 77
fi
bash "$here/prepare_minilm.sh" "$work" "$shared"
"$program" "$work" "$oracle"
