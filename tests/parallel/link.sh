#!/usr/bin/env bash
# The limits of limited_link hold: TCP between two namespaces, in both directions at once, and a round trip.
# Usage: bash tests/parallel/link.sh LIMITED_LINK WORK_FOLDER
# As root. RATE and DELAY are 100mbit and 5ms unless set. Takes everything down again, however it ends.
set -euo pipefail
LIMITED_LINK=$(realpath "${1:?usage: link.sh LIMITED_LINK WORK_FOLDER}") work=${2:?and a folder to work in} hosts=2
RATE=${RATE:-100mbit} DELAY=${DELAY:-5ms}
folder=$(realpath "$(dirname "$0")")
# shellcheck source=tests/parallel/network.sh
. "$folder/network.sh"

command -v python3 >/dev/null || skip "no python3"
make_network link
"$work/agent" "$network.2" exec python3 -B "$folder/link_ends.py" serve "$network.2" &
result=0
"$work/agent" "$network.1" exec timeout 120 python3 -B "$folder/link_ends.py" measure "$network.2" "$RATE" "$DELAY" ||
  result=$?
kill "$link"
wait "$link" || { echo "FAILED: the link ended with exit code $?"; result=1; }
tail -n 1 "$work/link.log"
link=
[ "$(ip -n "$(name 1)" -brief link show type tun 2>&1)" = "" ] || { echo "FAILED: an interface is left"; result=1; }
exit "$result"
