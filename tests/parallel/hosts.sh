#!/usr/bin/env bash
# Four hosts on one machine: a rank in each of four network namespaces, and the weights of a run without any.
# Usage: bash tests/parallel/hosts.sh PROGRAM WORK_FOLDER [MPIRUN]
# As root. RATE=100mbit DELAY=1ms limit what each host sends (network.sh; the program limited_link is looked for beside
# PROGRAM, unless LIMITED_LINK says where). Takes everything down again, however it ends.
set -euo pipefail
program=$(realpath "${1:?usage: hosts.sh PROGRAM WORK_FOLDER [MPIRUN]}") work=${2:?and a folder to work in}
mpirun=$(command -v "${3:-mpirun}" || true) hosts=4
LIMITED_LINK=${LIMITED_LINK:-$(dirname "$program")/limited_link}
# shellcheck source=tests/parallel/network.sh
. "$(dirname "$0")/network.sh"

fail() {
  cat "$work/log" 2>/dev/null || true
  printf 'FAILED: %s\n' "$*"
  exit 1
}

[ -n "$mpirun" ] || skip "no mpirun (on Debian: apt-get install openmpi-bin)"
make_network

arguments=(train --vocab-size=300 --max-length=16 --quiet --reviews=100 --batch-size=10 --epochs=3 --threads=1)
hash_of() { sed -n 's/^  weights hash *//p' "$work/log"; }
timeout 300 "$program" "${arguments[@]}" >"$work/log" 2>&1 || fail "the program alone"
wanted=$(hash_of)
[ -n "$wanted" ] || fail "the program alone prints no hash"

# On so many hosts, with the options behind it.
over() {
  timeout 300 "$work/mpirun" -n "$1" "$program" "${arguments[@]}" "${@:2}" >"$work/log" 2>&1 </dev/null
}
sent() { ip netns exec "$(name "$1")" cat /sys/class/net/eth0/statistics/tx_bytes; }

over 2 --max-steps=1 || {
  grep -q 'built without MPI' "$work/log" && skip "the program was built without MPI"
  grep -q '\[[a-z]*\.[a-z_]*\]$' "$work/log" && fail "two hosts"
  cat "$work/log"
  skip "mpirun cannot start a process in a namespace here"
}
for count in 2 4; do
  for options in "" "--shard-optimizer" "--no-overlap --bucket-size=64KiB"; do
    before=$(sent "$count") start=$(date +%s%N)
    # shellcheck disable=SC2086  # several options, or none
    over "$count" $options || fail "$count hosts${options:+, $options}"
    seconds=$((($(date +%s%N) - start) / 1000000))
    [ "$(hash_of)" = "$wanted" ] || fail "$count hosts${options:+, $options}: weights $(hash_of), wanted $wanted"
    bytes=$(($(sent "$count") - before))
    [ "$bytes" -gt 1000000 ] || fail "$count hosts${options:+, $options}: the last one sent $bytes bytes only"
    echo "ok: $count hosts${options:+, $options}${RATE:+, $RATE}${DELAY:+, $DELAY}: $wanted, $seconds ms, the last" \
      "host sent $((bytes / 1000)) kB"
  done
done
