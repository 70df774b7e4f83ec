#!/usr/bin/env bash
# The same bits from every compiler, flag and target: compiles bits.cpp in many ways and compares what it prints.
# Usage: bash tests/portability/compare_bits.sh WORK_FOLDER [aarch64]
# With "aarch64": cross-compiled (g++-aarch64-linux-gnu) and run under qemu-user, instead of the variants for this machine.
# Exit code: 0 all the same, 1 a difference, 77 nothing to compare with (a compiler or the emulator is not there).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=${1:?usage: compare_bits.sh WORK_FOLDER [aarch64]}
mkdir -p "$work"
source_flags=(-std=c++20 -DSOMA_QUIET -I "$root/include" -I "$root/tests" "$root/tests/portability/bits.cpp" -pthread)

# Training promises its bits with fused multiply-add only: the reference has it where this machine does.
reference=$work/reference.txt
fused=()
if grep -qw avx2 /proc/cpuinfo; then fused=(-march=x86-64-v3); fi
g++ -O2 "${fused[@]}" "${source_flags[@]}" -o "$work/reference"
"$work/reference" >"$reference"
compared=0

# compare NAME COMMAND...: runs the command and compares what it prints with the reference.
compare() {
  local name=$1
  shift
  "$@" >"$work/$name.txt"
  local expected=$reference
  if ! grep -q '^training' "$work/$name.txt"; then
    expected=$work/without_training.txt
    grep -v '^training' "$reference" >"$expected"
  fi
  if ! diff "$expected" "$work/$name.txt" >"$work/$name.diff"; then
    echo "different bits: $name"
    head -20 "$work/$name.diff"
    exit 1
  fi
  echo "same bits: $name"
  compared=$((compared + 1))
}

# build NAME COMPILER FLAGS...; false if the compiler refuses the flags themselves.
build() {
  local name=$1 compiler=$2
  shift 2
  command -v "$compiler" >/dev/null || return 1
  "$compiler" "$@" -x c++ -E /dev/null >/dev/null 2>&1 || return 1
  "$compiler" "$@" "${source_flags[@]}" -o "$work/$name"
}

if [ "${2:-}" = aarch64 ]; then
  # Highway's headers know every architecture; a folder of their own keeps this machine's other headers out.
  highway=$(echo '#include <hwy/highway.h>' | g++ -E -x c++ - | sed -n 's|^# 1 "\(.*\)/hwy/highway.h".*|\1|p' | head -1)
  gsl=$(echo '#include <gsl/assert>' | g++ -E -x c++ - | sed -n 's|^# 1 "\(.*\)/gsl/assert".*|\1|p' | head -1)
  emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)
  if ! command -v aarch64-linux-gnu-g++ >/dev/null || [ -z "$emulator" ]; then
    echo "SKIPPED: needs g++-aarch64-linux-gnu and qemu-user-static"
    exit 77
  fi
  mkdir -p "$work/aarch64"
  ln -sfn "$highway/hwy" "$work/aarch64/hwy"
  ln -sfn "$gsl/gsl" "$work/aarch64/gsl"
  for level in -O2; do
    aarch64-linux-gnu-g++ "$level" -static -I "$work/aarch64" "${source_flags[@]}" -o "$work/aarch64$level"
    compare "aarch64 $level" "$emulator" "$work/aarch64$level"
  done
else
  variants=("-O0" "-O3 -ffp-contract=fast" "-O2 -march=x86-64-v2" "-O1 -march=x86-64-v3 -ffp-contract=off"
    "-O2 -march=native -ffp-contract=fast")
  for compiler in g++ clang++; do
    for flags in "${variants[@]}"; do
      name="$compiler ${flags}"
      file=${name//[^a-z0-9+-]/_}
      # shellcheck disable=SC2086  # the flags are a list
      build "$file" "$compiler" $flags || continue
      # A level of x86-64 that this machine lacks cannot run here.
      if [[ $flags == *x86-64-v3* ]] && ! grep -qw avx2 /proc/cpuinfo; then continue; fi
      compare "$file" "$work/$file"
    done
  done
fi
echo "$compared variants, all with the same bits"
