#!/usr/bin/env bash
# No build system, no library: an include path is enough, at any optimisation level.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
for flags in -O0 "-O2 -march=native"; do
  # shellcheck disable=SC2086  # several flags in one word
  run "$CXX" -std=c++20 $flags -I "$include" "$consumer/main.cpp" -pthread -o consumer
  run ./consumer
done
