#!/usr/bin/env bash
# Two shared libraries of one process, each with soma::dispatch in it and showing its own functions only, as modules of
# an interpreter are: both train, at the same time, also after the other one was closed.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
library=$SOMA_BUILD/libsoma_dispatch.a
[ -f "$library" ] || skip "no libsoma_dispatch.a in the build folder"
run "$CXX" -std=c++20 -O0 -fPIC -fvisibility=hidden -DSOMA_DISPATCH=1 -DSOMA_NAME=train -I "$include" -c "$here/library.cpp" -o library.o
for name in first second; do
  run "$CXX" -shared library.o "$library" -lhwy -pthread -o "$name.so"
done
run "$CXX" -std=c++20 -O0 "$here/main.cpp" -pthread -ldl -o host
run ./host
