#!/usr/bin/env bash
# Macros named min, max, near, far, small, ERROR, interface and others as <windows.h> has them, I, and Qt's slots, signals, emit, foreach, are in force when soma is
# included.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
# Every foreign header that soma includes anywhere, taken from the sources, and what lies behind Highway. Highway
# itself is left out: it protects itself, and it must come after soma's configuration.
{
  printf '#if __has_include(<%s>)\n#include <%s>\n#endif\n' bits/stdc++.h bits/stdc++.h \
    immintrin.h immintrin.h arm_neon.h arm_neon.h
  find "$include/soma" \( -name '*.hpp' -o -name '*.ipp' \) ! -name xtensor.hpp -exec \
    sed -n 's/^ *# *include *<\([^>]*\)>.*/\1/p' {} + | grep -v -e '^soma/' -e '^hwy/' | sort -u |
    while read -r header; do
      printf '#if __has_include(<%s>)\n#include <%s>\n#endif\n' "$header" "$header"
    done
} >soma_foreign.hpp
# For the build machine and for the plain baseline.
for flags in -march=native ""; do
  # shellcheck disable=SC2086  # nothing, or one word
  run "$CXX" -std=c++20 $flags -I "$include" -I . "$here/main.cpp" -fsyntax-only
done
