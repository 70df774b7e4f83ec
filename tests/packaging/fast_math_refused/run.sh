#!/usr/bin/env bash
# Bits are promised, and fast-math breaks the promise silently: it has to be refused, by name.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
echo '#include <soma/api.hpp>' >unit.cpp
run "$CXX" -std=c++20 -O2 -I "$include" -fsyntax-only unit.cpp
for flag in -ffast-math -Ofast; do
  must_fail "fast-math" "$CXX" -std=c++20 -O2 "$flag" -I "$include" -fsyntax-only unit.cpp
done
