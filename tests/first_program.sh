#!/usr/bin/env bash
# From a checkout to the first training step, the shortest way: the program of the README that learns, by the include path.
# Installs what is missing, as examples/run.sh does. Usage: bash tests/first_program.sh [--help]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ $# -ne 0 ]; then
  echo "usage: bash tests/first_program.sh"
  echo "Compiles learn.cpp of README.md into build/first_program and runs it; prints the seconds that both took."
  if [ "$1" = --help ]; then exit 0; else exit 2; fi
fi

# shellcheck source=cmake/requirements.sh
source cmake/requirements.sh

soma_say "[1/3] compiler, libraries"
soma_require g++ libhwy-dev libmsgsl-dev
work=build/first_program
mkdir -p "$work"
sed -n '/^\/\/ file: learn\.cpp$/,/^```$/p' README.md | sed '$d' >"$work/learn.cpp"
[ -s "$work/learn.cpp" ] || soma_stop 1 "README.md has no block that begins with // file: learn.cpp"
soma_say "[2/3] g++ -std=c++20 -O2 -march=native -I include $work/learn.cpp -pthread"
SECONDS=0
"${CXX:-g++}" -std=c++20 -O2 -march=native -I include "$work/learn.cpp" -pthread -o "$work/learn"
soma_say "[3/3] $work/learn (compiled in $SECONDS s)"
"$work/learn"
