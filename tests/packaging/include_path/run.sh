#!/usr/bin/env bash
# No build system, no library: an include path is enough. With the argument "full" at any optimisation level, for any part of a
# CPU's instructions, under further checks, and with the library's units, without CMake. (Optimised programs without the library
# are also those of tests/static/.)
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
program plain "$consumer/main.cpp" -- "${strict[@]}" -I "$include"
run ./plain

# Samples of the built-in operators are for programs that check operators.
if nm --demangle plain | grep -q 'detail::linear_samples'; then
  fail "a program that checks no operators compiles their samples"
fi

# For a part of a CPU's instructions too, without a warning.
level=''
if [ "$(uname -m)" = x86_64 ]; then level=-march=x86-64-v3; fi
# shellcheck disable=SC2086  # nothing, or one word
run "$CXX" -std=c++20 $level "${strict[@]}" -I "$include" -fsyntax-only "$consumer/main.cpp"
if [ "${1:-}" != full ]; then exit 0; fi
"$CXX" -dM -E -x c++ /dev/null >macros
# With warnings that some projects have besides. (clang calls every change to double a promotion.)
more=(-Wnull-dereference -Wdouble-promotion)
if grep -q __clang__ macros; then more=(); fi
program consumer "$consumer/main.cpp" -- -O2 -march=native "${strict[@]}" ${more[@]+"${more[@]}"} -I "$include"
run ./consumer

if [ "$(uname -m)" = x86_64 ]; then
  run "$CXX" -std=c++20 -march=x86-64-v2 "${strict[@]}" -I "$include" -fsyntax-only "$consumer/main.cpp"
fi

# With checks that some projects have besides.
run "$CXX" -std=c++20 -D_GLIBCXX_DEBUG -fsanitize=undefined -I "$include" -fsyntax-only "$consumer/main.cpp"

# Without GNU's assembly and builtins, as on a compiler that has none.
program no_assembly "$consumer/main.cpp" -- -O1 -march=native -DSOMA_GNU_ASSEMBLY=0 "${strict[@]}" -I "$include"
run ./no_assembly

# The compiled half without CMake, its units linked to the program. (Macros and warnings as CMake has them, so that the objects
# are shared.)
program dispatched "$consumer/main.cpp" "${kernel_units[@]}" -- -std=gnu++20 "$quick_flags" -fPIC -Wall -Wextra -Wconversion -Wshadow \
  -DHWY_SHARED_DEFINE -DHWY_WANT_AVX3_DL -DSOMA_DISPATCH=1 "-DSOMA_TARGETS=(HWY_EMU128|HWY_SCALAR)" -I "$include" -lhwy
run ./dispatched
