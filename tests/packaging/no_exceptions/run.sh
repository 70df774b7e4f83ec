#!/usr/bin/env bash
# A host without exceptions and run-time type information.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
run "$CXX" -std=c++20 -O2 -fno-exceptions -fno-rtti "${strict[@]}" -I "$include" "$consumer/main.cpp" \
  -pthread -o consumer
run ./consumer
