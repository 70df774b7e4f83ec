#!/usr/bin/env bash
# The ways of using soma, in several units (docs/compile_time.md): those that fit together work, those that do not are
# refused by the linker, whose message says why; and a header-only unit compiles what it uses, whatever order its headers have.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
library=$SOMA_BUILD/libsoma_dispatch.a
with_library=()
if [ -f "$library" ]; then with_library=("$library" -lhwy -pthread); fi

# object <output> <source> <flags and headers>...: a header is written soma/x.hpp; the unit includes them in that order.
object() {
  local output=$1 source=$2 flags=() part
  shift 2
  : >"$output.hpp"
  for part in "$@"; do
    case $part in soma/*) echo "#include <$part>" >>"$output.hpp" ;; *) flags+=("$part") ;; esac
  done
  run "$CMAKE_CXX_COMPILER_LAUNCHER" "$CXX" -std=c++20 "${flags[@]}" "-DSOMA_HEADERS=\"$output.hpp\"" -I . -I "$include" \
    -c "$here/$source" -o "$output"
}
# works <objects>...: a program of them prints a small loss.
works() {
  run "$CXX" "$@" -pthread -o program
  ./program >loss.txt
  awk '{ exit !($1 > 0 && $1 < 0.1) }' loss.txt || fail "a program of $* prints $(cat loss.txt)"
}
# refused <name> <objects>...: they do not link, and a missing symbol takes a parameter of that name.
refused() {
  must_fail "undefined reference.*$1" "$CXX" "${@:2}" -pthread -o program
}

# Units with equal flags, each with its part, exchange contexts and tensors. Headers in alphabetical order, and the reverse.
object learn.o learn.cpp soma/nn.hpp soma/soma.hpp soma/train.hpp
object main.o main.cpp soma/train.hpp soma/soma.hpp soma/nn.hpp
works main.o learn.o
# Records of operators that a unit has: those that it uses.
records() { { nm --demangle "$1" | grep -o '::ops::[a-z_]*' || true; } | sed 's|::ops::||' | sort -u; }
records main.o >records.txt
[ ! -s records.txt ] || fail "a unit that only makes a context has operators: $(xargs <records.txt)"
records learn.o >records.txt
grep -qx linear records.txt || fail "a unit that learns has no operator 'linear': the names in objects are not understood"
if grep -xE 'attention|convolution|embedding|gather|gru|layer_norm|max_pool|quantized_linear' records.txt; then
  fail "a unit that learns has operators (above) that it does not use"
fi

# Units that include api.hpp first, beside one with all kernels and operators.
object learn_api.o learn.cpp soma/api.hpp
object labels_api.o labels.cpp soma/api.hpp soma/train.hpp soma/nn.hpp
object main_whole.o main.cpp -DSOMA_THREE_UNITS soma/whole.hpp
works main_whole.o learn_api.o labels_api.o
refused _header main.o learn_api.o
refused _header main_whole.o learn.o

# Orders of headers. api.hpp behind another one says what to do. (Before others it stands above; the usual order of all
# headers is that of each_header.)
for header in soma nn train; do
  printf '#include <soma/%s.hpp>\n#include <soma/api.hpp>\n' "$header" >order.cpp
  must_fail "Include soma/api.hpp first" "$CXX" -std=c++20 -I "$include" -E order.cpp
done
headers=()
while read -r header; do
  echo "#include <$header>" >order.cpp
  if "$CXX" -std=c++20 -I "$include" -E order.cpp >/dev/null 2>&1; then headers+=("$header"); fi
done < <(cd "$include" && find soma -maxdepth 1 -name '*.hpp' ! -name '*-inl.hpp' | LC_ALL=C sort)
[ "${#headers[@]}" -gt 10 ] || fail "few headers compile: ${headers[*]}"
printf '#include <%s>\n' "${headers[@]}" >forward.cpp
tac forward.cpp >backward.cpp
grep -v -e soma/api.hpp -e soma/whole.hpp backward.cpp >header_only.cpp
run "$CXX" -std=c++20 -DSOMA_DISPATCH=1 -I "$include" -fsyntax-only forward.cpp
run "$CXX" -std=c++20 -DSOMA_DISPATCH=1 -I "$include" -fsyntax-only backward.cpp
run "$CXX" -std=c++20 -I "$include" -fsyntax-only header_only.cpp

# Two targets are two kinds of soma.
if [ "$(uname -m)" = x86_64 ]; then
  object labels_avx2.o labels.cpp -mavx2 -mfma -mbmi2 -mf16c soma/soma.hpp
  nm --demangle labels_avx2.o | grep 'labels_in(soma::v[0-9_]*_header_AVX2::Context&)' || fail "a unit's names lack its target"
  refused 'labels_in(soma::v[0-9_]*_header_.*::Context&)' learn.o labels_avx2.o
fi

# Nothing is lost: operators that no line names are there, as in the library.
object names.o names.cpp
run "$CXX" names.o -pthread -o names
# The lists are compared without their word "samples".
plain() { sed -e 's/,*  *samples//' -e 's/  */ /g'; }
./names | plain >names_header.txt
grep -qx convolution names_header.txt || fail "a unit that names no operator lacks convolution"

# The library.
[ -f "$library" ] || skip "no libsoma_dispatch.a in the build folder (header-only ways passed)"
object names_library.o names.cpp -DSOMA_DISPATCH=1
run "$CXX" names_library.o "${with_library[@]}" -o names
./names | plain >names_library.txt
diff names_header.txt names_library.txt || fail "operators header-only (<) and in the library (>) differ"
object main_library.o main.cpp -DSOMA_DISPATCH=1 soma/soma.hpp
object learn_library.o learn.cpp -DSOMA_DISPATCH=1 soma/soma.hpp
works main_library.o learn_library.o "${with_library[@]}"
refused v[0-9_]*_header main.o learn_library.o "${with_library[@]}"
refused 'v[0-9]*_[0-9]*::Context' main_library.o learn.o "${with_library[@]}"
refused v[0-9_]*_header main_whole.o labels_api.o learn_library.o "${with_library[@]}"

# A header-only program takes nothing from the compiled halves that its component links.
halves=("$SOMA_BUILD"/libsoma_{models,text,io}.a)
if [ -f "${halves[0]}" ] && echo '#include <soma/models.hpp>' | "$CXX" -std=c++20 -I "$include" -E -x c++ - >/dev/null 2>&1; then
  others=(-lxxhash -lutf8proc -lz)
  object files.o files.cpp
  run "$CXX" files.o "${halves[@]}" "${with_library[@]}" "${others[@]}" -Wl,-Map,files.map -o files
  run ./files
  if grep '^[^ ].*libsoma_.*(.*)' files.map; then fail "a header-only program takes the members above of the library"; fi
  object files_library.o files.cpp -DSOMA_DISPATCH=1
  run "$CXX" files_library.o "${halves[@]}" "${with_library[@]}" "${others[@]}" -Wl,-Map,files.map -o files
  run ./files
  grep -q '^[^ ].*libsoma_models.*(.*)' files.map || fail "a program with soma::dispatch takes nothing from libsoma_models.a"
fi
