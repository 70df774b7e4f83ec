#!/usr/bin/env bash
# Bits are promised, and fast-math breaks the promise silently: it has to be refused, by name. So do machines whose
# words are big-endian.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
# An #error is found before anything is compiled.
echo '#include <soma/api.hpp>' >unit.cpp
run "$CXX" -std=c++20 -O2 -I "$include" -fsyntax-only unit.cpp
for flag in -ffast-math -Ofast -ffinite-math-only; do
  must_fail "fast-math" "$CXX" -std=c++20 -O2 "$flag" -I "$include" -E unit.cpp
done
must_fail "little-endian" "$CXX" -std=c++20 -DSOMA_TEST_BIG_ENDIAN -I "$include" -E unit.cpp
# Parts of it, of which clang tells nothing.
"$CXX" -dM -E -x c++ /dev/null >macros
if grep -q __clang__ macros; then exit 0; fi
for flags in "-ffast-math -fno-finite-math-only" -funsafe-math-optimizations -freciprocal-math -fno-signed-zeros \
  "-fassociative-math -fno-signed-zeros -fno-trapping-math"; do
  # shellcheck disable=SC2086
  must_fail "fast-math" "$CXX" -std=c++20 -O2 $flags -I "$include" -E unit.cpp
done
