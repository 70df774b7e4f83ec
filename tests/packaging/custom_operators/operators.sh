# shellcheck shell=bash
# Sourced by find_package/run.sh, where the installed package is in ./moved: a library of custom operators is built from
# it, loaded and run; each mistake ends the build with its own message.
operators=$SOMA_SOURCE/tests/packaging/custom_operators
project "$operators" operators "-DCMAKE_PREFIX_PATH=$SOMA_WORK/moved"

# must_not_build <target> <message>: as must_fail, of the whole message as it stands.
must_not_build() {
  printf '+ ! %s\n' "$1"
  if "$CMAKE" --build operators --target "$1" >must_fail.log 2>&1; then fail "this must not be built: $1"; fi
  if ! grep -qF -- "$2" must_fail.log; then
    cat must_fail.log
    fail "it failed as wanted, but its message lacks '$2'"
  fi
}
must_not_build unknown_kernel 'operator "mine::scale": kernel "scales" is in none of the compute files'
if [ -n "$(find operators -name 'libunknown_kernel.so' -print -quit)" ]; then fail "a library without its kernel was left"; fi
must_not_build other_parameters 'operator "mine::scale": kernel "scale" does not take (Tensor, Scalar), as its shape function does'
must_not_build other_result 'operator "mine::sum": kernel "sum" does not return a torch::Tensor, as its shape function does'
must_not_build eleven 'a library has at most 10 operators, this one 11'
must_not_build other_type 'a parameter of a custom operator is a torch::Tensor, a torch::Scalar, a double or an int64_t'
must_not_build thirteen 'a custom operator takes at most 12 numbers'
must_not_build throws 'library mine: not today'
must_fail "NAME builtin is reserved" "$CMAKE" operators -DNAME=builtin
must_fail "STACK_SIZE is 409601, at most 409600" "$CMAKE" operators -DNAME=mine -DSTACK_SIZE=409601

# The headers are silent, in both languages and with both compilers, and names of theirs stand alone.
compat=(-I "$SOMA_WORK/moved/include/soma/compat" -I "$SOMA_WORK/moved/include" -Wall -Wextra -Werror -fsyntax-only)
for compiler in "$CXX" clang++ g++; do
  command -v "$compiler" >/dev/null || continue
  for standard in c++17 c++20; do
    run "$compiler" "-std=$standard" "${compat[@]}" "$operators/operators/shape.cpp" -I "$operators/operators/include"
  done
done
