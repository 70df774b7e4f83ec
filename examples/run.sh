#!/usr/bin/env bash
# Builds and runs an example, installing what is missing. Usage: bash examples/run.sh [example] [its arguments]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${1:-}" = "--help" ] || [ "${1:-}" = "-h" ]; then
  cat <<'HELP'
usage: bash examples/run.sh [example] [arguments]

Builds an example and runs it with the arguments given.
  numeric_tour   the default: formats, stochastic rounding, this machine
  digits         trains two networks to read digits (bash examples/run.sh digits --help)

  1. installs the packages that are missing (as root on Debian or a relative; otherwise it says which)
  2. builds into build/release
  3. runs build/release/bin/<example>
Exit code: the program's; 2 if packages are missing and cannot be installed; 1 if a step failed.
HELP
  exit 0
fi

example=numeric_tour
case ${1:-} in
  numeric_tour | digits)
    example=$1
    shift
    ;;
esac

# shellcheck source=cmake/requirements.sh
source cmake/requirements.sh

soma_say "[1/3] compiler, CMake, Ninja, Highway, GSL"
soma_require g++ cmake ninja-build libhwy-dev libmsgsl-dev
soma_say "[2/3] building $example into build/release"
soma_build release-portable build/release "$example"
soma_say "[3/3] build/release/bin/$example $*"
exec "build/release/bin/$example" "$@"
