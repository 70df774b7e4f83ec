#!/usr/bin/env bash
# A made-up set of the shape of Amazon-670K (135,909 features, 670,091 classes, 490,449 points) trains without any option, says
# its memory before it takes it, and answers in time.
# Usage: bash tests/examples/extreme_classifier/large.sh PROGRAM [DIVISOR=1] [MICROSECONDS]
#   DIVISOR       of the set's numbers
#   MICROSECONDS  99 of 100 answers take less: 1000 in an optimised build; default: any time
set -euo pipefail
program=$1 divisor=${2:-1} most=${3:-}
fail() {
  printf '%s\n' "$*" >&2
  exit 1
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$program" train --features $((135909 / divisor)) --classes $((670091 / divisor)) --points $((490449 / divisor)) |
  tee "$log"
grep -q 'kind tree' "$log" || fail "not a tree"
[ "$(grep -n 'the fit takes up to' "$log" | cut -d: -f1)" -lt "$(grep -n 'CPU seconds' "$log" | cut -d: -f1)" ] ||
  fail "memory is not said first"
said=$(sed -n 's/.*the fit takes up to \([0-9]*\) MiB.*/\1/p' "$log")
peak=$(sed -n 's/.*; memory \([0-9]*\) MiB.*/\1/p' "$log")
# The points themselves, 8 bytes a value, and the program are there before.
values=$(sed -n 's/.* points, \([0-9]*\) values.*/\1/p' "$log")
[ "$peak" -le $((said + values * 8 / 1048576 + 64)) ] || fail "peak $peak MiB, said were $said"
awk '/^P@1/ { exit !($2 + 0 >= 0.5) }' "$log" || fail "P@1 is too low"
p99=$(sed -n 's/.*(p50), \([0-9]*\) us (p99).*/\1/p' "$log")
[ -z "$most" ] || [ "$p99" -lt "$most" ] || fail "p99 is $p99 us"
