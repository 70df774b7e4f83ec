#!/usr/bin/env bash
# As a subfolder of another CMake project: headers alone, then with the dispatch library (built on demand, shared, for one
# instruction set), where the project joins its units.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
project "$here" headers "-DSOMA_SOURCE=$SOMA_SOURCE"
if [ -n "$(find headers -name 'libsoma_dispatch*' -print -quit)" ]; then
  fail "the dispatch library was built although nobody links it"
fi
configure=("$CMAKE" -S "$here" "-DCMAKE_CXX_COMPILER=$CXX" "-DSOMA_SOURCE=$SOMA_SOURCE")
only=()
case $(uname -m) in
  x86_64)
    only=(-DSOMA_TARGETS=AVX2)
    must_fail "AVX5.* is none of" "${configure[@]}" -B unknown_target "-DSOMA_TARGETS=AVX2;AVX5"
    # NATIVE is the widest set that this CPU has, also where Highway knows a better one without kernels of ours (AVX3_DL).
    has() { grep -m 1 '^flags' /proc/cpuinfo | grep -qw "$1"; }
    best=BASELINE
    if has avx2 && has fma; then best=HWY_AVX2; fi
    if has avx512bw && has avx512vl; then best=HWY_AVX3; fi
    run "${configure[@]}" -B native -DWITH_DISPATCH=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DSOMA_TARGETS=NATIVE >native.log
    if [ "$best" != BASELINE ]; then
      grep -q "SOMA_TARGETS=.*$best" native/compile_commands.json || fail "SOMA_TARGETS=NATIVE leaves out $best"
    fi
    ;;
  *) must_fail "SOMA_TARGETS is for x86" "${configure[@]}" -B unknown_target -DSOMA_TARGETS=AVX2 ;;
esac
project "$here" dispatch "-DSOMA_SOURCE=$SOMA_SOURCE" -DWITH_DISPATCH=ON -DCMAKE_UNITY_BUILD=ON -DBUILD_SHARED_LIBS=ON \
  "-DSOMA_TARGETS=$quick_targets" "-DCMAKE_CXX_FLAGS=$quick_flags"
[ -n "$(find dispatch -name 'libsoma_dispatch.so' -print -quit)" ] || fail "BUILD_SHARED_LIBS made no shared library"
run dispatch/hidden
# What CMake asks of the compiler for another instruction set, shown by one unit.
if [ -n "${only[*]}" ]; then
  run "${configure[@]}" -B avx2 -DWITH_DISPATCH=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "${only[@]}" >avx2.log
  command=$(sed -n 's|^ *"command": "\(.* -c .*/dispatch/random\.cpp\)",$|\1|p' avx2/compile_commands.json | sed 's|\\"|"|g')
  [ -n "$command" ] || fail "compile_commands.json has no command for random.cpp"
  mkdir -p avx2/$(dirname "$(sed 's|.* -o \([^ ]*\) .*|\1|' <<<"$command")")
  (cd avx2 && bash -ec "$command")
  nm -C "$(find avx2 -name 'random.cpp.o' -print -quit)" >names.txt
  grep -q 'soma::v[0-9_]*::N_AVX2::' names.txt || fail "SOMA_TARGETS=AVX2: no kernels for AVX2"
  if grep -m 3 -E 'soma::v[0-9_]*::N_(AVX3|SSE4)' names.txt; then
    fail "SOMA_TARGETS=AVX2: kernels for other instruction sets"
  fi
fi

# What would be built for a program with a component: header-only, nothing of the library; with soma::dispatch, which it names
# in a generator expression, the compiled halves.
for dispatch in OFF ON; do
  run "${configure[@]}" -B components "-DWITH_DISPATCH=$dispatch" -DWITH_COMPONENTS=ON >components.log
  if grep -q "soma::models is not there" components.log; then break; fi
  { sed -n '/^build components:/p' components/build.ninja || cat components/CMakeFiles/components.dir/link.txt; } >commands.txt 2>link.log
  grep -q 'files\.cpp' commands.txt || fail "the commands of a build are not understood"
  halves=$({ grep -o 'libsoma_[a-z]*\.a' commands.txt || true; } | sort -u | xargs)
  case $dispatch in OFF) wanted='' ;; *) wanted='libsoma_dispatch.a libsoma_io.a libsoma_models.a libsoma_text.a' ;; esac
  [ "$halves" = "$wanted" ] || fail "soma::models with dispatch $dispatch builds '$halves', not '$wanted'"
done

# A component that is not there says what it needs.
mkdir choosy
printf '%s\n' 'cmake_minimum_required(VERSION 3.22)' 'project(choosy CXX)' "add_subdirectory(\"$SOMA_SOURCE\" soma EXCLUDE_FROM_ALL)" \
  "add_executable(choosy \"$SOMA_SOURCE/tests/packaging/consumer/main.cpp\")" 'target_link_libraries(choosy PRIVATE soma::tensorboard)' \
  >choosy/CMakeLists.txt
must_fail "libprotozero-dev" "$CMAKE" -S choosy -B choosy/build "-DCMAKE_CXX_COMPILER=$CXX" -DSOMA_WITH_TENSORBOARD=OFF
