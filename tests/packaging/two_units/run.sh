#!/usr/bin/env bash
# Units compiled with different flags in one program, in both link orders: each keeps its own kernels. Not optimised,
# because then nothing is inlined and every function could be shared; with the argument "full" three units at three levels.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
full=${1:-}
compile() {
  local name=$1
  shift
  run "$CXX" -std=c++20 "$@" "-DSOMA_UNIT=$name" -I "$include" -c "$here/unit.cpp" -o "$name.o"
}
native=()
if "$CXX" -march=native -x c++ -fsyntax-only /dev/null 2>/dev/null; then native=(-march=native); fi
objects=(native.o baseline.o)
define=()
compile baseline -O0
compile native ${full:+-O3} "${native[@]}"
if [ -n "$full" ] && "$CXX" -mavx2 -mfma -x c++ -fsyntax-only /dev/null 2>/dev/null; then
  compile middle -O2 -mavx2 -mfma -mbmi2 -mf16c
  objects=(native.o middle.o baseline.o)
  if grep -qw avx2 /proc/cpuinfo; then define=(-DSOMA_RUN_MIDDLE); fi
fi
run "$CXX" -std=c++20 "${define[@]}" -c "$here/main.cpp" -o main.o

reversed=()
for object in "${objects[@]}"; do reversed=("$object" ${reversed[@]+"${reversed[@]}"}); done
run "$CXX" main.o "${objects[@]}" -pthread -o first
run ./first
run "$CXX" main.o "${reversed[@]}" -pthread -o second
run ./second

# No function that depends on the target may be shared between the objects: of those that are (weak in two
# objects), none may name a make_context or a kernel of ours that the flags can change.
for object in "${objects[@]}"; do
  nm --demangle "$object" | awk '$2 ~ /^[WV]$/' | sed 's/^[0-9a-f]* . //' | grep 'make_context' |
    sort -u >"$object.weak" || true
done
if sort -m ./*.weak | uniq -d | grep .; then fail "the functions above are the same symbol in two objects"; fi
