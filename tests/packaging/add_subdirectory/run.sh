#!/usr/bin/env bash
# As a subfolder of another CMake project: headers alone, then with the dispatch library (built on demand), where the
# project joins its units.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
project "$here" headers "-DSOMA_SOURCE=$SOMA_SOURCE"
if [ -n "$(find headers -name 'libsoma_dispatch*' -print -quit)" ]; then
  fail "the dispatch library was built although nobody links it"
fi
project "$here" dispatch "-DSOMA_SOURCE=$SOMA_SOURCE" -DWITH_DISPATCH=ON -DCMAKE_UNITY_BUILD=ON
