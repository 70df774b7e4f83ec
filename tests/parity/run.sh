#!/usr/bin/env bash
# Prepares the inputs and runs the parity test. Usage: bash tests/parity/run.sh tiny|pretrained PROGRAM WRITE_REVIEWS WORK
# With the pretrained model also on sentences that people wrote, if they lie beside the checkout: SOMA_SHARED names the
# folder that has data/oracle.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kind=${1:?usage: run.sh KIND PROGRAM WRITE_REVIEWS WORK} program=${2:?} write_reviews=${3:?} work=${4:?}
bash "$here/prepare.sh" "$kind" "$write_reviews" "$work"
printf '%s model, generated reviews\n' "$kind"
"$program" "$work/model" "$work/train.tsv" "$here/$kind.json"
shared=${SOMA_SHARED:-$here/../../../shared}
oracle=$shared/data/oracle/minilm_sst2_20_steps.json
if [ "$kind" = pretrained ] && [ -r "$oracle" ]; then
  printf 'pretrained model, sentences of %s\n' "$shared/data/sst2/train.tsv"
  "$program" "$work/model" "$shared/data/sst2/train.tsv" "$oracle"
fi
