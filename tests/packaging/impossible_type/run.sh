#!/usr/bin/env bash
# A type made from an impossible record is a compile error that says so: tests/numeric/minifloat/compile_fail.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
for source in "$SOMA_SOURCE"/tests/numeric/minifloat/compile_fail/*_fail.cpp; do
  must_fail "impossible FloatFormat record" "$CXX" -std=c++20 -I "$include" -fsyntax-only "$source"
done
