#!/usr/bin/env bash
# Runs a command while there are hosts on this machine (network.sh): its {} becomes a launcher that is used as mpirun.
# Usage: RATE=1gbit DELAY=1ms LIMITED_LINK=PROGRAM bash tests/parallel/on_hosts.sh HOSTS WORK_FOLDER COMMAND...
# As root. For example: on_hosts.sh 2 /tmp/hosts {} -n 2 build/release/bin/soma_transport_mpi
set -euo pipefail
hosts=${1:?usage: on_hosts.sh HOSTS WORK_FOLDER COMMAND...} work=${2:?and a folder to work in}
shift 2
# shellcheck source=tests/parallel/network.sh
. "$(dirname "$0")/network.sh"
make_network
"${@//\{\}/$work/mpirun}" &  # a signal does not wait for it
command=$!
trap 'kill "$command" 2>/dev/null || true; exit 130' INT TERM
wait "$command"
