#!/usr/bin/env bash
# bert_classifier cross-built for aarch64, five steps of each kind of model under qemu: in portable math the weights have the
# hash of this machine's.
# Usage: bash tests/portability/aarch64_classifier.sh WORK_FOLDER
# Needs g++-aarch64-linux-gnu, qemu-user-static and the libraries for that architecture (dpkg --add-architecture arm64:
# libhwy-dev:arm64 libutf8proc-dev:arm64 zlib1g-dev:arm64). Exit code 77: something is missing, the last line says what.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mkdir -p "${1:?usage: aarch64_classifier.sh WORK_FOLDER}" && cd "$1" && pwd)
skip() {
  printf '%s\n' "$*"
  exit 77
}
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || skip "qemu-user-static is not installed"
command -v aarch64-linux-gnu-g++ >/dev/null || skip "g++-aarch64-linux-gnu is not installed"
for library in libhwy.so libutf8proc.so libz.so; do
  [ -e "/usr/lib/aarch64-linux-gnu/$library" ] ||
    skip "no $library for aarch64 (libhwy-dev:arm64 libutf8proc-dev:arm64 zlib1g-dev:arm64)"
done

build() { # build <folder> <arguments>...
  local folder=$1
  shift
  cmake -S "$source" -B "$folder" -DCMAKE_BUILD_TYPE=Release -DSOMA_BUILD_TESTS=OFF -DSOMA_BUILD_BENCHMARKS=OFF \
    -DSOMA_WITH_MPI=OFF -DSOMA_WITH_XTENSOR=OFF "$@"
  cmake --build "$folder" --parallel 2 --target bert_classifier
}
# Boost's package lies in a folder of this machine's architecture; only its headers are used.
boost=$(find /usr/lib /usr/share -path '*/cmake/Boost-*/BoostConfig.cmake' -printf '%h\n' -quit 2>/dev/null || true)
[ -n "$boost" ] || skip "libboost-dev is not installed"
targets=()
if [ "$(uname -m)" = x86_64 ]; then targets=(-DSOMA_TARGETS=AVX2); fi
build "$work/here" "${targets[@]}"
build "$work/there" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
  -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu \
  -DCMAKE_CROSSCOMPILING_EMULATOR="$emulator" "-DBoost_DIR=$boost"

awk 'BEGIN { for (i = 0; i < 200; ++i) print "the lamp number " i " is " (i % 2 ? "fine" : "awful") "\t" (i % 2 ? "good" : "bad") }' >"$work/rows.tsv"
train() { # train <program>... : five steps, and the hash of the weights
  rm -rf "$work/model"
  "$@" train --data "$work/rows.tsv" "${kind[@]}" --max-steps 5 --math portable --threads 1 --quiet --output "$work/model" >&2
  sha256sum <"$work/model/model.safetensors"
}
compare() { # compare <name> <options of the kind of model>...
  local name=$1 here there
  shift
  kind=("$@")
  here=$(train "$work/here/examples/bert_classifier")
  there=$(train "$emulator" -L / "$work/there/examples/bert_classifier")
  printf '%s\n' "$name" "this machine: $here" "aarch64:      $there"
  [ "$here" = "$there" ]
}
compare bert --preset tiny --vocab-size 200
compare fast --model-kind fast
