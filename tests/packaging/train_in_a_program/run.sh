#!/usr/bin/env bash
# examples/train_in_a_program as its reader builds it: against an installed soma, on a file of sentences and a model
# that bert_classifier has made. What the programs print is checked, numbers of time and memory aside.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
classifier=$SOMA_BUILD/bin/bert_classifier
[ -x "$classifier" ] || skip "bert_classifier is not built"

# Sentences that a list of words tells apart; the words of the sentences to ask for are among them.
awk 'BEGIN {
  split("lamp film tent chair kettle", things); split("fine lovely great superb", good); split("awful poor dull grim", bad)
  print "text\tlabel"
  for (i = 0; i < 1200; ++i) {
    word = i % 2 ? good[1 + int(i / 2) % 4] : bad[1 + int(i / 3) % 4]
    printf "the %s number %d is %s\t%s\n", things[1 + i % 5], i, word, i % 2 ? "positive" : "negative"
  }
}' >reviews.tsv
run "$classifier" train --data reviews.tsv --vocab-size 400 --epochs 6 --learning-rate 1e-3 --quiet --output begun

run "$CMAKE" --install "$SOMA_BUILD" --prefix "$SOMA_WORK/installed" >install.log
run "$CMAKE" -S "$SOMA_SOURCE/examples/train_in_a_program" -B build "-DCMAKE_CXX_COMPILER=$CXX" \
  "-DCMAKE_PREFIX_PATH=$SOMA_WORK/installed"
run "$CMAKE" --build build --parallel 2

# Samples of operators, and the accelerator with its programs, are units of the library that such a program does not link.
if nm --demangle build/first | grep -E 'detail::linear_samples|dispatch::built_in_programs|neuroncore::run_kernel'; then
  fail "a program that only trains links the units above"
fi

# expect <file> <line as an extended regular expression>...
expect() {
  local file=$1 line
  shift
  for line in "$@"; do
    grep -qxE "$line" "$file" || {
      cat "$file"
      fail "$file has no line '$line'"
    }
  done
}
build/first reviews.tsv begun fine_tuned "the film is superb" >first.txt 2>progress.txt
expect first.txt '  accuracy +1\.0000 .*' '  steps +[0-9]+ .*' 'positive	0\.9[0-9]+'
expect progress.txt 'training .* parameters for [0-9]+ steps, .*' 'validation after step .* accuracy 1\.0000.*'
expect <("$classifier" predict --model fine_tuned <<<"the lamp is awful") 'negative	0\.9[0-9]+'

build/inside_a_host reviews.tsv begun "the lamp is awful" >host.txt
expect host.txt 'journal: evaluated after step [0-9]+' 'accuracy 1' 'negative	0\.9[0-9]+' 'bytes left behind 0' \
  "the host's threads did all: yes, its memory was used: yes"
if build/first missing.tsv begun out text 2>error.txt; then fail "a missing file was accepted"; fi
expect error.txt '.*missing\.tsv.*\[file\.[a-z_]+\]'
echo "both programs trained, said what they should and cleaned up"
