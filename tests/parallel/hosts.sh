#!/usr/bin/env bash
# Four hosts on one machine: network namespaces behind a bridge, a rank in each, and the weights of a run without any.
# Usage: bash tests/parallel/hosts.sh PROGRAM WORK_FOLDER [MPIRUN]
# As root. RATE=100mbit DELAY=1ms limit what each host sends (tc). Takes everything down again, however it ends.
set -euo pipefail
program=$(realpath "${1:?usage: hosts.sh PROGRAM WORK_FOLDER [MPIRUN]}") work=${2:?and a folder to work in}
mpirun=$(command -v "${3:-mpirun}" || true)

# Names and addresses of this run alone: several may be under way. Interfaces have at most 15 letters.
id=$(printf '%x' "$$")
hosts=4 bridge=sb$id network=10.$((200 + $$ / 256 % 50)).$(($$ % 256))
name() { echo "soma-$id-$1"; }

skip() {
  printf 'SKIPPED: %s\n' "$*"
  exit 77
}
fail() {
  cat "$work/log" 2>/dev/null || true
  printf 'FAILED: %s\n' "$*"
  exit 1
}

clean_up() {
  local host process
  for host in $(seq $hosts); do
    # What still runs in there was started by this script: nobody else knows the namespace.
    for process in $(ip netns pids "$(name "$host")" 2>/dev/null); do kill -9 "$process" 2>/dev/null || true; done
    ip netns del "$(name "$host")" 2>/dev/null || true  # its end of the cable goes along
  done
  ip link del "$bridge" 2>/dev/null || true
}

[ -n "$mpirun" ] || skip "no mpirun (on Debian: apt-get install openmpi-bin)"
for tool in ip tc unshare; do
  command -v "$tool" >/dev/null || skip "no $tool (on Debian: apt-get install iproute2 util-linux)"
done
mkdir -p "$work"
work=$(realpath "$work")
trap clean_up EXIT
trap 'exit 130' INT TERM
ip netns add "$(name 1)" 2>"$work/log" || skip "no network namespaces here: $(head -n 1 "$work/log")"
ip link add "$bridge" type bridge 2>"$work/log" || skip "no bridges here: $(head -n 1 "$work/log")"
unshare --uts true 2>"$work/log" || skip "no host names of one's own here: $(head -n 1 "$work/log")"
ip link set "$bridge" up
for host in $(seq $hosts); do
  [ "$host" = 1 ] || ip netns add "$(name "$host")"
  ip link add "sv$id$host" type veth peer name eth0 netns "$(name "$host")" 2>"$work/log" ||
    skip "no cables (veth) here: $(head -n 1 "$work/log")"
  ip link set "sv$id$host" master "$bridge" up
  ip -n "$(name "$host")" address add "$network.$host/24" dev eth0
  ip -n "$(name "$host")" link set eth0 up
  ip -n "$(name "$host")" link set lo up
  if [ -n "${RATE:-}${DELAY:-}" ]; then
    ip netns exec "$(name "$host")" tc qdisc add dev eth0 root netem ${RATE:+rate "$RATE"} ${DELAY:+delay "$DELAY"} \
      2>"$work/log" || skip "no limits (tc netem) here: $(head -n 1 "$work/log")"
  fi
done

# In place of ssh: on HOST COMMAND... enters the namespace of the host with that address, under a name of its own.
cat >"$work/agent" <<AGENT
#!/bin/sh
host=soma-$id-\${1##*.}
shift
exec ip netns exec "\$host" unshare --uts sh -c 'hostname "\$0"; exec sh -c "\$1"' "\$host" "\$*"
AGENT
chmod +x "$work/agent"

arguments=(train --vocab-size=300 --max-length=16 --quiet --reviews=100 --batch-size=10 --epochs=3 --threads=1)
hash_of() { sed -n 's/^  weights hash *//p' "$work/log"; }
timeout 300 "$program" "${arguments[@]}" >"$work/log" 2>&1 || fail "the program alone"
wanted=$(hash_of)
[ -n "$wanted" ] || fail "the program alone prints no hash"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_hwloc_base_binding_policy=none
# On the hosts $1 (a list), with the options behind it; over TCP between the namespaces and nothing else.
over() {
  local list=$1 count
  shift
  count=$(tr ',' '\n' <<<"$list" | wc -l)
  "$work/agent" "$network.1" exec timeout 300 "$mpirun" -n "$count" --host "$list" --mca plm rsh \
    --mca plm_rsh_agent "$work/agent" --mca plm_rsh_no_tree_spawn 1 --mca btl tcp,self --mca pml ob1 \
    --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0 \
    "$program" "${arguments[@]}" "$@" >"$work/log" 2>&1 </dev/null
}
sent() { ip netns exec "$(name "$1")" cat /sys/class/net/eth0/statistics/tx_bytes; }

list=$network.1,$network.2
over "$list" --max-steps=1 || {
  grep -q 'built without MPI' "$work/log" && skip "the program was built without MPI"
  grep -q '\[[a-z]*\.[a-z_]*\]$' "$work/log" && fail "two hosts"
  cat "$work/log"
  skip "mpirun cannot start a process in a namespace here"
}
for count in 2 4; do
  [ "$count" = 2 ] || list=$list,$network.3,$network.4
  for options in "" "--shard-optimizer" "--no-overlap --bucket-size=64KiB"; do
    before=$(sent "$count") start=$(date +%s%N)
    # shellcheck disable=SC2086  # several options, or none
    over "$list" $options || fail "$count hosts${options:+, $options}"
    seconds=$((($(date +%s%N) - start) / 1000000))
    [ "$(hash_of)" = "$wanted" ] || fail "$count hosts${options:+, $options}: weights $(hash_of), wanted $wanted"
    bytes=$(($(sent "$count") - before))
    [ "$bytes" -gt 1000000 ] || fail "$count hosts${options:+, $options}: the last one sent $bytes bytes only"
    echo "ok: $count hosts${options:+, $options}${RATE:+, $RATE}${DELAY:+, $DELAY}: $wanted, $seconds ms, the last" \
      "host sent $((bytes / 1000)) kB"
  done
done
