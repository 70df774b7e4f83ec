#!/usr/bin/env bash
# Puts faults back, one by one, into a copy of the library, and asks that programs of the fixed seeds find each.
# Usage: sabotage.sh COMPILER SOURCE WORK LIBRARIES OBJECTS...   (LIBRARIES: what the program is linked with)
set -euo pipefail
compiler=$1 source=$2 work=$3 libraries=$4
shift 4
rm -rf "$work"
mkdir -p "$work"
missed=0
try() {  # name, file, units, expression
  local name=$1 file=$2 units=$3 expression=$4 unit objects=()
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
  SOMA_BETWEEN_FAILURES=5 timeout 600 "$work/sabotaged" '[fixed]' > "$work/output" 2>&1 || true
  local found
  found=$(grep -c 'TEST_CASE("between: ' "$work/output" || true)
  if [ "$found" -ge 3 ]; then
    echo "found   $name: $found programs"
  else
    echo "MISSED  $name: $found programs"
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
  if [ ${#lines[@]} -eq 4 ]; then
    try "${lines[@]}"
    lines=()
  fi
done < "$source/tests/between/sabotages.txt"
exit "$missed"
