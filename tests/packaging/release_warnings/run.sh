#!/usr/bin/env bash
# A Release build of the library, the examples and the benchmarks, as examples/run.sh makes it, prints no warning.
# Optimisation shows a compiler more than the ordinary tests (-Og) do.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

run "$CMAKE" -S "$SOMA_SOURCE" -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$CXX" -DSOMA_WERROR=ON \
  -DSOMA_BUILD_TESTS=OFF -DSOMA_BUILD_EXAMPLES=ON -DSOMA_BUILD_BENCHMARKS=ON >configure.log
# All warnings of all files in one run, and not the first one only.
"$CMAKE" --build build -- -k 0 >build.log 2>&1 || {
  grep -E 'warning:|error:' build.log | sort -u
  fail "a Release build is not silent"
}
if grep -n 'warning:' build.log; then fail "a Release build is not silent"; fi
echo "a Release build with $("$CXX" --version | head -1) is silent"
