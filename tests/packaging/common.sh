# shellcheck shell=bash
# Sourced by every run.sh here. From CMakeLists.txt it gets:
#   SOMA_SOURCE the checkout   SOMA_BUILD its build folder   SOMA_WORK a folder for this test   CXX   CMAKE
set -euo pipefail
: "${SOMA_SOURCE:?}" "${SOMA_BUILD:?}" "${SOMA_WORK:?}" "${CXX:?}" "${CMAKE:?}"
here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
consumer=$SOMA_SOURCE/tests/packaging/consumer
include=$SOMA_SOURCE/include
rm -rf "$SOMA_WORK"
mkdir -p "$SOMA_WORK"
cd "$SOMA_WORK"

# Flags that a project with strict habits uses. Headers are given with -I, so that nothing is hidden as "system".
strict=(-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wundef -Werror)

skip() {
  printf 'SKIPPED: %s\n' "$*"
  exit 77
}

fail() {
  printf 'FAILED: %s\n' "$*"
  exit 1
}

# Shows a command and runs it.
run() {
  printf '+ %s\n' "$*"
  "$@"
}

# must_fail <pattern> <command>...: the command ends with an error that names the cause.
must_fail() {
  local pattern=$1
  shift
  printf '+ ! %s\n' "$*"
  if "$@" >must_fail.log 2>&1; then fail "this must not succeed: $*"; fi
  if ! grep -q -- "$pattern" must_fail.log; then
    cat must_fail.log
    fail "it failed as wanted, but its message lacks '$pattern'"
  fi
}

# Configures, builds and runs a small project: project <source folder> <build folder> [cmake arguments]
# Without a build type, as who follows a tutorial has it; also the quickest.
project() {
  local source=$1 build=$2
  shift 2
  run "$CMAKE" -S "$source" -B "$build" "-DCMAKE_CXX_COMPILER=$CXX" "$@"
  run "$CMAKE" --build "$build"
  run "$build/consumer"
}
