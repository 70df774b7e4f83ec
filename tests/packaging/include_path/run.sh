#!/usr/bin/env bash
# No build system, no library: an include path is enough, at any optimisation level. "full": the library's units, without CMake.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
"$CXX" -dM -E -x c++ /dev/null >macros
program plain "$consumer/main.cpp" -- "${strict[@]}" -I "$include"
run ./plain
# With warnings that some projects have besides. (clang calls every change to double a promotion.)
more=(-Wnull-dereference -Wdouble-promotion)
if grep -q __clang__ macros; then more=(); fi
program consumer "$consumer/main.cpp" -- -O2 -march=native "${strict[@]}" ${more[@]+"${more[@]}"} -I "$include"
run ./consumer

# Samples of the built-in operators are for programs that check operators.
if nm --demangle consumer | grep -q 'detail::linear_samples'; then
  fail "a program that checks no operators compiles their samples"
fi

# For a part of a CPU's instructions too, without a warning.
levels=("" "")
if [ "$(uname -m)" = x86_64 ]; then levels=(-march=x86-64-v2 -march=x86-64-v3); fi
for level in "${levels[@]}"; do
  # shellcheck disable=SC2086  # nothing, or one word
  run "$CXX" -std=c++20 $level "${strict[@]}" -I "$include" -fsyntax-only "$consumer/main.cpp"
done

# With checks that some projects have besides.
run "$CXX" -std=c++20 -D_GLIBCXX_DEBUG -fsanitize=undefined -I "$include" -fsyntax-only "$consumer/main.cpp"

# With the argument "full": the compiled half without CMake, its units linked to the program. (Macros and warnings as CMake
# has them, so that the objects are shared.)
if [ "${1:-}" != full ]; then exit 0; fi
# Without GNU's assembly and builtins, as on a compiler that has none.
program no_assembly "$consumer/main.cpp" -- -O1 -march=native -DSOMA_GNU_ASSEMBLY=0 "${strict[@]}" -I "$include"
run ./no_assembly
program dispatched "$consumer/main.cpp" "${kernel_units[@]}" -- -std=gnu++20 "$quick_flags" -fPIC -Wall -Wextra -Wconversion -Wshadow \
  -DHWY_SHARED_DEFINE -DHWY_WANT_AVX3_DL -DSOMA_DISPATCH=1 "-DSOMA_TARGETS=(HWY_EMU128|HWY_SCALAR)" -I "$include" -lhwy
run ./dispatched
