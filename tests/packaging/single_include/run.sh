#!/usr/bin/env bash
# The single header alone: copied somewhere, under its own name and under another one. Programs
# without the library, the accelerator's model among them, and beside it.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
mkdir -p renamed
# The files as they are made now: house/single_header compares them with those in the checkout.
amalgamate=(python3 -B "$SOMA_SOURCE/single_include/amalgamate.py")
run "${amalgamate[@]}" -o copy/soma
cp copy/soma/soma.hpp renamed/one_file.hpp
sed 's|<soma/soma.hpp>|"one_file.hpp"|' "$consumer/main.cpp" >renamed/main.cpp
# Without optimisation: house/single_header shows that its text is that of the headers, which other tests build and run.
program consumer "$consumer/main.cpp" -- "${strict[@]}" -I copy
run ./consumer
run "$CXX" -std=c++20 "${strict[@]}" -fsyntax-only renamed/main.cpp

# The accelerator's model in a second file, made on request, beside the first.
run "${amalgamate[@]}" soma/neuroncore.hpp -o copy/soma/neuroncore.hpp
run "$CXX" -std=c++20 -O0 "${strict[@]}" -I copy "$consumer/core.cpp" -pthread -o core
run ./core

# Units beside the one with the kernels include the interface alone: its declarations are those of the single soma.hpp, so
# a unit may include both in any order, under any name, and objects of a tensor cross from one unit to the other.
if "$CXX" -std=c++20 -I copy -M "$here/beside.cpp" | grep -q -e hwy/highway.h -e soma/soma.hpp; then
  fail "the single api.hpp brings kernels along"
fi
printf '#include %s\n' '<soma/api.hpp>' '"one_file.hpp"' >both.cpp
run "$CXX" -std=c++20 -DSOMA_DISPATCH=1 "${strict[@]}" -I copy -I renamed -fsyntax-only both.cpp
printf '#include %s\n' '"one_file.hpp"' '<soma/api.hpp>' >both.cpp
run "$CXX" -std=c++20 -DSOMA_DISPATCH=1 "${strict[@]}" -I copy -I renamed -fsyntax-only both.cpp

# Several headers on request in one file, which holds nothing of soma.hpp again. Of one that soma.hpp holds nothing is left.
run "${amalgamate[@]}" soma/neuroncore.hpp soma/sparse.hpp soma/nn.hpp -o copy/additions.hpp
echo '#include "additions.hpp"' >both.cpp
run "$CXX" -std=c++20 -DSOMA_DISPATCH=1 "${strict[@]}" -I copy -fsyntax-only both.cpp
run "${amalgamate[@]}" soma/train.hpp -o copy/train.hpp
if grep -v -e '^//' -e '^#pragma once$' -e '^$' copy/train.hpp | grep -v '^#include <soma/soma.hpp>$'; then
  fail "the single train.hpp repeats what soma.hpp holds"
fi

# With SOMA_DISPATCH it is the light interface: Highway must not be behind it.
if "$CXX" -std=c++20 -DSOMA_DISPATCH=1 -I copy -M "$consumer/main.cpp" | grep -q hwy/highway.h; then
  fail "the single header includes Highway although SOMA_DISPATCH is defined"
fi
library=$SOMA_BUILD/libsoma_dispatch.a
[ -f "$library" ] || skip "no libsoma_dispatch.a in the build folder (the static part passed)"
program beside "$here/main.cpp" "$here/beside.cpp" -- -DSOMA_DISPATCH=1 "${strict[@]}" -I copy "$library" -lhwy
run ./beside
program core "$consumer/core.cpp" -- -DSOMA_DISPATCH=1 "${strict[@]}" -I copy "$library" -lhwy
run ./core
