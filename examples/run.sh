#!/usr/bin/env bash
# Builds and runs the numeric tour, installing what is missing. Usage: bash examples/run.sh [arguments of the tour]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${1:-}" = "--help" ] || [ "${1:-}" = "-h" ]; then
  cat <<'HELP'
usage: bash examples/run.sh [arguments]

Builds examples/numeric_tour and runs it with the arguments given.
  1. installs the packages that are missing (as root on Debian or a relative; otherwise it says which)
  2. builds into build/release
  3. runs build/release/bin/numeric_tour
Exit code: the program's; 2 if packages are missing and cannot be installed; 1 if a step failed.
HELP
  exit 0
fi

# shellcheck source=cmake/requirements.sh
source cmake/requirements.sh

soma_say "[1/3] compiler, CMake, Ninja, Highway, GSL"
soma_require g++ cmake ninja-build libhwy-dev libmsgsl-dev
soma_say "[2/3] building the numeric tour into build/release"
soma_build release-portable build/release numeric_tour
soma_say "[3/3] build/release/bin/numeric_tour $*"
exec build/release/bin/numeric_tour "$@"
