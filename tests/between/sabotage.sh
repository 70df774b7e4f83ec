#!/usr/bin/env bash
# Puts faults back, one by one, into a copy of the library, and asks that programs of the fixed seeds find each, and
# that these are made small: at most 4 calls or layers in the median.
# Usage: sabotage.sh COMPILER SOURCE WORK LIBRARIES OBJECTS...   (LIBRARIES: what the program is linked with)
# SOMA_SABOTAGE: only faults whose names contain this.
set -euo pipefail
compiler=$1 source=$2 work=$3 libraries=$4
shift 4
rm -rf "$work"
mkdir -p "$work"
missed=0
sizes=()  # of all programs that were found, when made small
median() { printf '%s\n' "$@" | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
# Calls and layers of each program in the test cases that a report prints.
sizes_of() {
  awk '/TEST_CASE\("between: / { inside = 1; count = 0 }
       inside && /^ *(n[0-9]+|layer) / { ++count }
       inside && /\)"\)/ { print count; inside = 0 }' "$1"
}
try() {  # name, file, units, tests, expression
  local name=$1 file=$2 units=$3 tests=$4 expression=$5 unit kind objects=() small=() filter=
  rm -rf "$work/include"
  cp -r "$source/include" "$work/include"
  sed -i "$expression" "$work/include/soma/$file"
  if cmp -s "$source/include/soma/$file" "$work/include/soma/$file"; then
    echo "MISSED  $name: the expression changes nothing in $file"
    missed=1
    return
  fi
  for unit in $units; do
    "$compiler" -std=c++20 -O1 -DSOMA_DISPATCH=1 -I"$work/include" -c "$work/include/soma/dispatch/$unit.cpp" \
      -o "$work/$unit.o"
    objects+=("$work/$unit.o")
  done
  # The library gives what these objects do not define.
  # shellcheck disable=SC2086
  "$compiler" "${test_objects[@]}" "${objects[@]}" $libraries -pthread -o "$work/sabotaged"
  for kind in $tests; do filter+=${filter:+,}"[fixed][$kind]"; done
  SOMA_BETWEEN_FAILURES=5 timeout 600 "$work/sabotaged" "$filter" > "$work/output" 2>&1 || true
  mapfile -t small < <(sizes_of "$work/output")
  if [ ${#small[@]} -ge 3 ]; then
    echo "found   $name: ${#small[@]} programs, of ${small[*]} calls or layers"
    sizes+=("${small[@]}")
  else
    echo "MISSED  $name: ${#small[@]} programs"
    missed=1
  fi
}
test_objects=("$@")
lines=()
while IFS= read -r line; do
  case $line in
    '#'* | '') continue ;;
  esac
  lines+=("$line")
  if [ ${#lines[@]} -eq 5 ]; then
    case ${lines[0]} in
      *"${SOMA_SABOTAGE:-}"*) try "${lines[@]}" ;;
    esac
    lines=()
  fi
done < "$source/tests/between/sabotages.txt"
if [ ${#sizes[@]} -ne 0 ]; then
  half=$(median "${sizes[@]}")
  echo "median  $half calls or layers of ${#sizes[@]} programs"
  [ "$half" -le 4 ] || missed=1
fi
exit "$missed"
