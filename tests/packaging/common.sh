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

# Compiles through share.sh, by CMake too: ways that compile the same share the object.
export SOMA_OBJECTS=$SOMA_BUILD/packaging_objects
export CMAKE_CXX_COMPILER_LAUNCHER=$SOMA_SOURCE/tests/packaging/share.sh

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

# program <output> <source>... [-- <flags>...]: objects of the sources with the flags, linked with those of the flags that are
# for the linker. Not optimised unless the flags say so.
program() {
  local output=$1 flags=() sources=() link=() objects=() flag object
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    sources+=("$1")
    shift
  done
  for flag in "${@:2}"; do
    case $flag in -l* | -L* | *.a | *.so | *.o) link+=("$flag") ;; *) flags+=("$flag") ;; esac
  done
  case " ${flags[*]} " in *' -std='*) ;; *) flags+=(-std=c++20) ;; esac
  for flag in "${sources[@]}"; do
    object=$output.$(basename "$flag" .cpp).o
    run "$CMAKE_CXX_COMPILER_LAUNCHER" "$CXX" "${flags[@]}" -c "$flag" -o "$object"
    objects+=("$object")
  done
  run "$CXX" "${objects[@]}" ${link[@]+"${link[@]}"} -pthread -o "$output"
}

# A quick build of the library, the same for all tests that build it: one instruction set, not optimised. The slow suite builds
# it as users do. kernel_units: its units, for who has no CMake (those of components, which need other libraries, stand in a folder of their own).
quick_targets=BASELINE
quick_flags=-march=native
mapfile -t kernel_units < <(find "$include/soma/dispatch" -maxdepth 1 -name '*.cpp' | sort)

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
