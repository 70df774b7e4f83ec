#!/usr/bin/env bash
# Programs that cannot be right do not compile, and the compiler says why: every *_fail.cpp below
# tests/, whose second line is the words that the message has to contain.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
find "$SOMA_SOURCE/tests" -name '*_fail.cpp' >sources
[ -s sources ] || fail "no *_fail.cpp is there"
while read -r source; do
  words=$(sed -n '2s|^// *||p' "$source")
  [ -n "$words" ] || fail "$source: no words to expect in its second line"
  must_fail "$words" "$CXX" -std=c++20 -DSOMA_DISPATCH=1 -I "$include" -fsyntax-only "$source"
done <sources
