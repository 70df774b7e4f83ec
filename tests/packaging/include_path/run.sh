#!/usr/bin/env bash
# No build system, no library: an include path is enough, at any optimisation level.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
for flags in -O0 "-O2 -march=native"; do
  # shellcheck disable=SC2086  # several flags in one word
  run "$CXX" -std=c++20 $flags "${strict[@]}" -I "$include" "$consumer/main.cpp" -pthread -o consumer
  run ./consumer
done

# Samples of the built-in operators, which only tests want, are left out unless the program asks for them.
if nm --demangle consumer | grep -q 'soma::detail::linear_samples'; then
  fail "a program that checks no operators compiles their samples"
fi
printf '%s\n' '#include <soma/soma.hpp>' \
  'static_assert((soma::ops::linear.samples != nullptr) == (SOMA_WANTED == 1));' >samples.cpp
run "$CXX" -std=c++20 -DSOMA_WANTED=0 -I "$include" -fsyntax-only samples.cpp
run "$CXX" -std=c++20 -DSOMA_WANTED=1 -DSOMA_SAMPLES=1 -I "$include" -fsyntax-only samples.cpp

# For a part of a CPU's instructions too, without a warning.
if [ "$(uname -m)" = x86_64 ]; then
  for level in x86-64-v2 x86-64-v3; do
    run "$CXX" -std=c++20 "-march=$level" "${strict[@]}" -I "$include" -fsyntax-only "$consumer/main.cpp"
  done
fi

# With warnings and checks that some projects have besides. (clang calls every change to double a promotion.)
run "$CXX" -std=c++20 -D_GLIBCXX_DEBUG -fsanitize=undefined -I "$include" -fsyntax-only "$consumer/main.cpp"
"$CXX" -dM -E -x c++ /dev/null >macros
if ! grep -q __clang__ macros; then
  run "$CXX" -std=c++20 -O2 -Wnull-dereference -Wdouble-promotion -Werror -I "$include" -c "$consumer/main.cpp"
fi
