#!/usr/bin/env bash
# Builds and runs the tests, installing what is missing. Usage: bash tests/run.sh [--slow] [arguments of ctest]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=tests
select=()
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h)
      cat <<'HELP'
usage: bash tests/run.sh [--slow] [--preset NAME] [arguments of ctest]

  1. installs the packages that are missing (as root on Debian or a relative; otherwise it says which)
  2. builds the tests into build/NAME (NAME: tests, or dev, dev-clang, asan, ubsan, tsan)
  3. runs them with ctest
--slow runs the cases tagged [slow] instead of the others.
Examples:  bash tests/run.sh -R numeric      bash tests/run.sh --preset asan      bash tests/run.sh --slow
Exit code: ctest's; 2 if packages are missing and cannot be installed; 1 if a step failed.
HELP
      exit 0
      ;;
    --slow) select=(-C slow -L '^slow$') ;;
    --preset)
      preset=${2:?--preset needs a name}
      shift
      ;;
    *) break ;;
  esac
  shift
done

# shellcheck source=cmake/requirements.sh
source cmake/requirements.sh

soma_say "[1/3] compiler, CMake, Ninja, Python, libraries, MPI, Catch2"
soma_require g++ cmake ninja-build libhwy-dev libmsgsl-dev libxtensor-dev nlohmann-json3-dev libxxhash-dev \
  libutf8proc-dev zlib1g-dev libprotozero-dev libpng-dev libjpeg-dev libcli11-dev libboost-dev libopenmpi-dev openmpi-bin \
  iproute2 catch2 python3 python3-venv pkg-config
soma_say "[2/3] building into build/$preset"
soma_build "$preset" "build/$preset"
soma_say "[3/3] testing"
[ "$preset" != tsan ] || export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp${TSAN_OPTIONS:+ $TSAN_OPTIONS}"
# One more than there are cores: some tests wait for others.
exec ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$(($(soma_jobs) + 1))" \
  ${select[@]+"${select[@]}"} "$@"
