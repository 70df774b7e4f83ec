# shellcheck shell=bash disable=SC2154
# Hosts on one machine, for scripts that source this: network namespaces, addresses, and ways to start things there.
# Needs root. Before: $work (a folder), $hosts (how many). RATE=1gbit DELAY=1ms limit what each host sends, by tc where
# the kernel has netem, else by the program $LIMITED_LINK (bench/yardstick/limited_link.cpp). Then make_network gives
#   $work/agent ADDRESS COMMAND     in place of ssh: in the namespace of that host, under a name of its own
#   $work/mpirun -n COUNT COMMAND   ranks on the first COUNT hosts, or shared out over all; over TCP and nothing else
# and the addresses are $network.1, $network.2 and so on. Everything is taken down again, however the script ends.

# Names and addresses of this run alone: several may be under way. Interfaces have at most 15 letters.
id=$(printf '%x' "$$")
bridge=sb$id network=10.$((200 + $$ / 256 % 50)).$(($$ % 256)) link=
name() { echo "soma-$id-$1"; }

skip() {
  printf 'SKIPPED: %s\n' "$*"
  exit 77
}

clean_up() {
  local host process
  for host in $(seq "$hosts"); do
    # Only this script knows the namespace, so that every process in it was started by this script.
    for process in $(ip netns pids "$(name "$host")" 2>/dev/null); do kill -9 "$process" 2>/dev/null || true; done
  done
  if [ -n "$link" ]; then
    kill "$link" 2>/dev/null || true
    wait "$link" 2>/dev/null || true
  fi
  for host in $(seq "$hosts"); do
    ip netns del "$(name "$host")" 2>/dev/null || true  # its end of the cable goes along
  done
  ip link del "$bridge" 2>/dev/null || true
}

# A bridge, and a cable to each host; with the limits as options of netem.
make_cables() {
  local host
  ip link add "$bridge" type bridge 2>"$work/log" || skip "no bridges here: $(head -n 1 "$work/log")"
  ip link set "$bridge" up
  for host in $(seq "$hosts"); do
    ip link add "sv$id$host" type veth peer name eth0 netns "$(name "$host")" 2>"$work/log" ||
      skip "no cables (veth) here: $(head -n 1 "$work/log")"
    ip link set "sv$id$host" master "$bridge" up
    [ $# = 0 ] || ip netns exec "$(name "$host")" tc qdisc add dev eth0 root netem "$@"
  done
}

make_limited_link() {
  local host
  [ -x "${LIMITED_LINK:-}" ] ||
    skip "no limits: tc has no netem here, and LIMITED_LINK is not the program limited_link"
  : >"$work/link.log"  # of a run before
  # shellcheck disable=SC2046  # a word each
  "$LIMITED_LINK" ${RATE:+--rate "$RATE"} ${DELAY:+--delay "$DELAY"} \
    $(for host in $(seq "$hosts"); do name "$host"; done) >>"$work/link.log" 2>&1 </dev/null &
  link=$!
  for _ in $(seq 100); do
    grep -q '^ready' "$work/link.log" && return
    kill -0 "$link" 2>/dev/null || break
    sleep 0.05
  done
  skip "no limited link here: $(head -n 1 "$work/link.log")"
}

# With "link" also where tc could do it.
make_network() {
  local host limits=${RATE:+rate $RATE }${DELAY:+delay $DELAY}
  for tool in ip unshare; do
    command -v "$tool" >/dev/null || skip "no $tool (on Debian: apt-get install iproute2 util-linux)"
  done
  mkdir -p "$work"
  work=$(realpath "$work")
  trap clean_up EXIT
  trap 'exit 130' INT TERM
  for host in $(seq "$hosts"); do
    ip netns add "$(name "$host")" 2>"$work/log" || skip "no network namespaces here: $(head -n 1 "$work/log")"
  done
  # Needs a mount of its own for /sys, which a chroot or a container may not make.
  ip netns exec "$(name 1)" true 2>"$work/log" ||
    skip "no commands in network namespaces here: $(head -n 1 "$work/log")"
  unshare --uts true 2>"$work/log" || skip "no host names of one's own here: $(head -n 1 "$work/log")"
  # shellcheck disable=SC2086  # options and values
  if [ "${1:-}" = link ]; then
    make_limited_link
  elif [ -z "$limits" ]; then
    make_cables
  elif ip netns exec "$(name 1)" tc qdisc add dev lo root netem $limits 2>/dev/null; then
    ip netns exec "$(name 1)" tc qdisc del dev lo root
    make_cables $limits
  else
    make_limited_link
  fi
  for host in $(seq "$hosts"); do
    ip -n "$(name "$host")" address add "$network.$host/24" dev eth0
    ip -n "$(name "$host")" link set eth0 up
    ip -n "$(name "$host")" link set lo up
  done

  cat >"$work/agent" <<AGENT
#!/bin/sh
host=soma-$id-\${1##*.}
shift
exec ip netns exec "\$host" unshare --uts sh -c 'hostname "\$0"; exec sh -c "\$1"' "\$host" "\$*"
AGENT
  cat >"$work/mpirun" <<MPIRUN
#!/usr/bin/env bash
count=\$2 hosts=$hosts
[ "\$1" = -n ] || { echo "usage: $work/mpirun -n COUNT COMMAND" >&2; exit 2; }
shift 2
[ "\$hosts" -lt "\$count" ] || hosts=\$count
list=\$(for host in \$(seq "\$hosts"); do echo "$network.\$host:\$(((count + hosts - 1) / hosts))"; done | paste -sd,)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_hwloc_base_binding_policy=none
exec "$work/agent" $network.1 "\$(printf '%q ' exec "${mpirun:-mpirun}" -n "\$count" --host "\$list" --mca plm rsh \\
  --mca plm_rsh_agent "$work/agent" --mca plm_rsh_no_tree_spawn 1 --mca btl tcp,self --mca pml ob1 \\
  --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0 "\$@")"
MPIRUN
  chmod +x "$work/agent" "$work/mpirun"
}
