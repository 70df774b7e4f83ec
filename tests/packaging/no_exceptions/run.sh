#!/usr/bin/env bash
# A host without exceptions and run-time type information.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
# The first program, and headers beside soma.hpp with the libraries that they stand on where those are there.
printf '#include "%s"\n#include <soma/train.hpp>\n' "$consumer/main.cpp" >unit.cpp
for header in models text testing; do
  echo "#include <soma/$header.hpp>" >one.cpp
  if "$CXX" -std=c++20 -I "$include" -E one.cpp 2>one.log >/dev/null; then
    cat one.cpp >>unit.cpp
  elif ! grep -qE "fatal error: '?(nlohmann|utf8proc|zlib|xxhash)" one.log; then
    cat one.log
    fail "soma/$header.hpp does not compile"
  fi
done
run "$CXX" -std=c++20 -O0 -fno-exceptions -fno-rtti "${strict[@]}" -I "$include" -fsyntax-only unit.cpp
for flag in -fno-exceptions -fno-rtti; do
  run "$CXX" -std=c++20 -O0 $flag "${strict[@]}" -I "$include" -fsyntax-only unit.cpp
done
program consumer "$consumer/main.cpp" -- -fno-exceptions -fno-rtti "${strict[@]}" -I "$include"
run ./consumer

# ends_with <code> <text> <command>...: the program that makes an error ends so, and says so.
ends_with() {
  local code=$1 text=$2 seen=0
  shift 2
  (ulimit -c 0 && "$@") >error.log 2>&1 || seen=$?
  grep -q "^$text.*\[format.unknown_name\]" error.log || fail "it does not say '$text'"
  [ "$seen" -eq "$code" ] || fail "it ends with $seen, not $code"
}
abort=134  # 128 + SIGABRT
program error "$here/error.cpp" -- -fno-exceptions "${strict[@]}" -I "$include"
ends_with $abort "find_format: name is" ./error
ends_with $abort "own handler: find_format" ./error own_handler
ends_with 42 "own end: find_format" ./error own_end
program throws "$here/error.cpp" -- "${strict[@]}" -I "$include"
ends_with 42 "own end: find_format" ./throws own_end
if "$CXX" -std=c++20 '-DSOMA_THROW(error)=std::abort()' -I "$include" -E "$here/error.cpp" >one.log 2>&1; then
  fail "a macro that soma does not read is passed over in silence"
fi
grep -q "set_error_handler" one.log || fail "the error does not say what to call"
