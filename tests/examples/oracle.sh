#!/usr/bin/env bash
# The pretrained oracle through the command line: losses and gradient norms of twenty steps beside float64.
# Usage: oracle.sh PROGRAM MINILM_WORK. Exit code 77: the data or the pretrained model are not there.
set -euo pipefail
program=$1
work=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
shared=${SOMA_SHARED:-$here/../../../shared}
if [ ! -f "$shared/data/oracle/minilm_sst2_20_steps.json" ] || [ ! -f "$work/model/model.safetensors" ]; then
  echo "SKIPPED: no shared data, or parity/minilm has not prepared the pretrained model"
  exit 77
fi
"$program" train --pretrained "$work/model" --data "$shared/data/sst2/train.tsv" --dev "$shared/data/sst2/dev.tsv" \
  --batch-size 16 --max-steps 20 --no-shuffle --dropout 0 --learning-rate 5e-5 --weight-decay 0.01 --decay-all \
  --clip 1 --schedule constant --precision fp32 --quiet --log-json "$work/command_line.jsonl"
python3 - "$shared/data/oracle/minilm_sst2_20_steps.json" "$work/command_line.jsonl" <<'PYTHON'
import json
import sys

oracle = json.load(open(sys.argv[1]))
steps = [line for line in map(json.loads, open(sys.argv[2])) if "event" not in line]
loss = max(abs(step["loss"] - wanted) for step, wanted in zip(steps, oracle["loss"]))
norm = max(abs(step["grad_norm"] / wanted - 1) for step, wanted in zip(steps, oracle["grad_norm"]))
print(f"{len(steps)} steps: loss {loss:.1e} (at most 1e-6), gradient norm {norm:.1e} relative (at most 3e-5)")
sys.exit(0 if len(steps) == 20 and loss <= 1e-6 and norm <= 3e-5 else 1)
PYTHON
