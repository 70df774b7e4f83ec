#!/usr/bin/env bash
# Programs that are compiled with other flags than the library that they link: hidden visibility, no exceptions, the address
# sanitizer work; containers for debugging, whose layout the library does not have, are refused by the linker.
# With an argument, only that part: hidden, no_exceptions, address_sanitizer or debug_containers.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
library=$SOMA_BUILD/libsoma_dispatch.a
[ -f "$library" ] || skip "no libsoma_dispatch.a in the build folder"
dispatch=(-DSOMA_DISPATCH=1 -I "$include")
link=("$library" -lhwy)

# ends_with <code> <text> <program>: the program ends so, and says so.
ends_with() {
  local seen=0
  printf '+ %s\n' "${*:3}"
  (ulimit -c 0 && "${@:3}") >ends.log 2>&1 || seen=$?
  cat ends.log
  [ "$seen" -eq "$1" ] || fail "it ends with $seen, not $1"
  grep -q "$2" ends.log || fail "it does not say '$2'"
}

# An error of a shared library, made of the archive here, is caught by its type.
hidden() {
  run "$CXX" -shared -Wl,--whole-archive "$library" -Wl,--no-whole-archive -lhwy -pthread -o libsoma_shared.so
  program hidden "$here/hidden.cpp" -- -fvisibility=hidden -fvisibility-inlines-hidden "${dispatch[@]}" ./libsoma_shared.so
  ends_with 0 'format.unknown_name' ./hidden
}

# The library throws, and nobody catches; or a handler ends the program.
no_exceptions() {
  local flags source=$SOMA_SOURCE/tests/packaging/no_exceptions/error.cpp
  for flags in -fno-exceptions "-fno-exceptions -fno-rtti"; do
    # shellcheck disable=SC2086  # words on purpose
    program error "$source" -- $flags "${dispatch[@]}" "${link[@]}"
    ends_with 134 'find_format: .*format.unknown_name' ./error # 128 + SIGABRT
    ends_with 42 'own end: find_format' ./error own_end
    # shellcheck disable=SC2086
    program consumer "$consumer/main.cpp" -- $flags "${dispatch[@]}" "${link[@]}"
    run ./consumer
  done
}

address_sanitizer() {
  echo 'int main() {}' >empty.cpp
  if ! "$CXX" -fsanitize=address empty.cpp -o empty 2>/dev/null || ! ./empty; then
    echo "left out: the compiler has no address sanitizer that runs here"
    return
  fi
  run "$CXX" -std=c++20 -fsanitize=address "${dispatch[@]}" "$here/behind.cpp" "${link[@]}" -pthread -o behind
  ends_with 0 '^0.5$' ./behind 7
  ends_with 1 'AddressSanitizer: use-after-poison' ./behind 8
}

debug_containers() {
  run "$CXX" -std=c++20 -D_GLIBCXX_DEBUG "${dispatch[@]}" -c "$here/debug.cpp" -o debug.o
  if nm --demangle debug.o | grep debug_containers >names.txt; then
    must_fail "undefined reference.*soma::.*_debug_containers::make_context" "$CXX" debug.o "${link[@]}" -pthread -o debug
  else
    echo "left out: another standard library, which has no containers for debugging"
  fi
}

for part in ${1:-hidden no_exceptions address_sanitizer debug_containers}; do "$part"; done
