#!/usr/bin/env bash
# Ranks as processes: the program mpi_test under mpirun. Usage: bash tests/parallel/mpi.sh PROGRAM [MPIRUN]
set -euo pipefail
program=${1:?usage: mpi.sh PROGRAM [MPIRUN]} mpirun=${2:-mpirun}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

skip() {
  printf 'SKIPPED: %s\n' "$*"
  exit 77
}
fail() {
  cat "$log"
  printf 'FAILED: %s\n' "$*"
  exit 1
}

command -v "$mpirun" >/dev/null || skip "no mpirun (on Debian: apt-get install openmpi-bin)"
# Open MPI's mpirun runs as root, and more ranks than cores, only if it is asked to; it must not bind ranks to cores
# then, nor look for ssh. Other launchers ignore its variables.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_plm_rsh_agent=
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none  # from version 5

export ASAN_OPTIONS="detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}" # MPI libraries keep what they allocate

ranks() { timeout 120 "$mpirun" -n "$1" "$program" "${@:2}" >"$log" 2>&1; }

ranks 1 checks || {
  grep -q 'rank 0: ' "$log" && fail "one rank"
  cat "$log"
  skip "mpirun cannot start a process here"
}
for number in 1 2 4 8; do
  ranks "$number" checks || fail "checks with $number ranks"
  [ "$(grep -c 'all passed' "$log")" -eq "$number" ] || fail "not all of $number ranks passed"
  echo "ok: checks with $number ranks"
done
OMPI_MCA_btl_tcp_flags=3 ranks 2 errors || fail "errors"  # a setting of the user's stays
[ "$(grep -c 'all passed' "$log")" -eq 2 ] || fail "errors: not all ranks passed"
echo "ok: errors"

# ends WHAT LEAST MOST: the run fails after so many seconds.
ends() {
  local start=$SECONDS
  ranks 4 "$1" && fail "$1: the run did not fail"
  local seconds=$((SECONDS - start))
  if [ "$seconds" -lt "$2" ] || [ "$seconds" -gt "$3" ]; then fail "$1: it took $seconds s, not $2 to $3 s"; fi
  grep -q "is $1" "$log" || fail "$1: nothing happened to rank 1"
  echo "ok: $1, ended after $seconds s"
}
ends killed 0 15
ends hung 1 30
grep -q 'to rank . with tag .* is not over after [0-9]* ms, wanted a rank . that answers.*parallel.timeout' "$log" ||
  fail "hung: no rank says parallel.timeout"
ends thrown 0 15
grep -q '^rank 1 was out of luck$' "$log" || fail "thrown: the host's own message is missing"
