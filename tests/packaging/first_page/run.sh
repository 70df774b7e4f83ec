#!/usr/bin/env bash
# The program of the first page of docs/getting_started.md compiles in silence with a host's flags, on each compiler that is
# installed, whether the headers are the project's (-I) or the system's (-isystem), and without run-time type information.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

awk '/^```cpp$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$SOMA_SOURCE/docs/getting_started.md" >first.cpp
grep -q 'int main' first.cpp || fail "the first program of getting_started.md is no program"
compilers=()
for name in g++-12 g++-13 g++-14 clang++-14 clang++-15 clang++-16 clang++-17 clang++-18 clang++-19; do
  if command -v "$name" >/dev/null; then compilers+=("$name"); else echo "left out: $name is not installed"; fi
done
[ ${#compilers[@]} -ne 0 ] || compilers=("$CXX")
for compiler in "${compilers[@]}"; do
  for way in -I -isystem; do
    run "$compiler" -std=c++20 -O3 -Wall -Wextra -Werror $way "$include" -c first.cpp -o first.o
  done
  run "$compiler" -std=c++23 -O3 -Wall -Wextra -Werror -fno-rtti -I "$include" -c first.cpp -o first.o
done
