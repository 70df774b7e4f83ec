#!/usr/bin/env bash
# The parity test through the command line: losses and gradient norms of training steps beside float64.
# Usage: bash tests/examples/oracle.sh tiny|pretrained PROGRAM WRITE_REVIEWS WORK
# WORK is the folder of tests/parity/prepare.sh. With the pretrained model also on the sentences beside the checkout
# (SOMA_SHARED), if they are there. Exit code 77: the pretrained model is not to be had.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kind=${1:?usage: oracle.sh KIND PROGRAM WRITE_REVIEWS WORK} program=${2:?} write_reviews=${3:?} work=${4:?}
bash "$here/../parity/prepare.sh" "$kind" "$write_reviews" "$work"

# check <rows> <held-out rows> <oracle>
check() {
  local steps
  steps=$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["loss"]))' "$3")
  "$program" train --pretrained "$work/model" --data "$1" --dev "$2" \
    --batch-size 16 --max-steps "$steps" --no-shuffle --dropout 0 --learning-rate 5e-5 --weight-decay 0.01 --decay-all \
    --clip 1 --schedule constant --precision fp32 --quiet --log-json "$work/command_line.jsonl"
  python3 - "$3" "$work/command_line.jsonl" <<'PYTHON'
import json
import sys

oracle = json.load(open(sys.argv[1]))
steps = [line for line in map(json.loads, open(sys.argv[2])) if "event" not in line]
loss = max(abs(step["loss"] - wanted) for step, wanted in zip(steps, oracle["loss"]))
norm = max(abs(step["grad_norm"] / wanted - 1) for step, wanted in zip(steps, oracle["grad_norm"]))
print(f"{len(steps)} steps: loss {loss:.1e} (at most 1e-6), gradient norm {norm:.1e} relative (at most 3e-5)")
sys.exit(0 if len(steps) == len(oracle["loss"]) > 0 and loss <= 1e-6 and norm <= 3e-5 else 1)
PYTHON
}

check "$work/train.tsv" "$work/held_out.tsv" "$here/../parity/$kind.json"
shared=${SOMA_SHARED:-$here/../../../shared}
oracle=$shared/data/oracle/minilm_sst2_20_steps.json
if [ "$kind" = pretrained ] && [ -r "$oracle" ]; then
  check "$shared/data/sst2/train.tsv" "$shared/data/sst2/dev.tsv" "$oracle"
fi
