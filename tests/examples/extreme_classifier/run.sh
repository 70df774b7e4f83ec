#!/usr/bin/env bash
# The commands of extreme_classifier: what it trains is saved, measured and answered with; a run that ends early goes on.
# Usage: bash tests/examples/extreme_classifier/run.sh PROGRAM WORK_FOLDER
set -euo pipefail
program=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
fail() {
  printf '%s\n' "$*" >&2
  exit 1
}
sizes=(--classes 2000 --features 3000 --points 2048 --refresh-every 3 --threads 2)
for sampler in lsh_shared lsh_per_sample; do
  set_size=1024
  [ "$sampler" = lsh_shared ] || set_size=256
  all=("${sizes[@]}" --sampler "$sampler" --set "$set_size")
  "$program" train "${all[@]}" --report --output "$work/$sampler" >"$work/$sampler.log"
  grep -q '^P@1 0' "$work/$sampler.log" || fail "$sampler: no P@1"
  grep -q 'rows of classes that a step touches' "$work/$sampler.log" || fail "$sampler: no report"
  grep -q 'of the likeliest 100 among' "$work/$sampler.log" || fail "$sampler: no recall"
  # Four of eight steps, between two refreshes, and the rest: the same model.
  "$program" train "${all[@]}" --max-steps 4 --checkpoint "$work/kept" >/dev/null
  "$program" train "${all[@]}" --checkpoint "$work/kept" --resume --output "$work/resumed" >/dev/null
  cmp "$work/$sampler/model.safetensors" "$work/resumed/model.safetensors"
  if "$program" train "${all[@]}" --checkpoint "$work/kept" >/dev/null 2>"$work/error"; then fail "two runs in one folder"; fi
  grep -q 'checkpoint.step' "$work/error" || fail "another error: $(cat "$work/error")"
  rm -rf "$work/kept"
done
# By all classes and by hashes that look at all of them: the same answers.
"$program" evaluate --model "$work/lsh_shared" --points 200 --sparse --candidates 2000 --head 2000 >"$work/evaluated"
[ "$(sed -n 's/^all classes: *//p' "$work/evaluated")" = "$(sed -n 's/^by hashes: *//p' "$work/evaluated")" ] ||
  fail "other answers: $(cat "$work/evaluated")"
printf '1 3000 2000\n5,7 0:1 17:0.25 2999:2\n' >"$work/points.xmc"
"$program" predict --model "$work/lsh_shared" --top 3 "$work/points.xmc" >"$work/dense"
"$program" predict --model "$work/lsh_shared" --top 3 --sparse --candidates 2000 --head 2000 "$work/points.xmc" >"$work/sparse"
[ "$(wc -w <"$work/dense")" = 3 ] || fail "not three classes: $(cat "$work/dense")"
[ "$(tr ' ' '\n' <"$work/dense" | cut -d: -f1)" = "$(tr ' ' '\n' <"$work/sparse" | cut -d: -f1)" ] || fail "other classes"
# Each line has an answer, a blank one an empty line; a comment and a query's number are skipped.
printf '5 0:1 17:0.25 # a comment\n\n+7 qid:3 2999:+2\n' >"$work/lines.xmc"
"$program" predict --model "$work/lsh_shared" --top 3 "$work/lines.xmc" >"$work/lines" 2>"$work/notes"
[ "$(awk '{print NF}' "$work/lines" | xargs)" = "3 0 3" ] || fail "not an answer a line: $(cat "$work/lines")"
grep -q 'qid.*1 points' "$work/notes" || fail "not said: $(cat "$work/notes")"
grep -q 'P@5.*nDCG@3.*PSP@1' "$work/evaluated" || fail "no measures: $(cat "$work/evaluated")"
# No point has a label; a line is too long for an option of the program.
printf '2 9 5\n 1:1\n 2:1\n' >"$work/unlabelled.xmc"
code=0
"$program" train --data "$work/unlabelled.xmc" --output "$work/none" >/dev/null 2>"$work/error" || code=$?
[ "$code" = 1 ] && grep -q 'data.labels' "$work/error" || fail "exit code $code: $(cat "$work/error")"
[ ! -e "$work/none" ] || fail "a model of nothing"
"$program" predict --model "$work/lsh_shared" --max-line-bytes 9 "$work/lines.xmc" >/dev/null 2>"$work/error" && fail "no limit"
grep -q 'max_line_bytes' "$work/error" || fail "another error: $(cat "$work/error")"
"$program" train --help >"$work/help"
grep -q -- --max-line-bytes "$work/help" || fail "no such option"
# Without an option: a linear model, or a tree of many classes; both are saved and answer.
for kind in linear tree; do
  "$program" train "${sizes[@]:0:6}" --threads 2 --kind "$kind" --output "$work/$kind" >"$work/$kind.log"
  grep -q "kind $kind, C .*passes" "$work/$kind.log" || fail "$kind: nothing is said: $(cat "$work/$kind.log")"
  "$program" evaluate --model "$work/$kind" --points 200 >"$work/$kind.measured"
  awk '{ exit !($2 + 0 >= 0.5) }' "$work/$kind.measured" || fail "$kind: $(cat "$work/$kind.measured")"
  grep -q 'us (p50)' "$work/$kind.measured" || fail "$kind: no time of an answer"
  "$program" predict --model "$work/$kind" --top 3 "$work/lines.xmc" >"$work/lines" 2>/dev/null
  [ "$(awk '{print NF}' "$work/lines" | xargs)" = "3 0 3" ] || fail "$kind: not an answer a line"
done
"$program" train --classes 2001 --features 3000 --points 512 --threads 2 >"$work/automatic.log"
grep -q 'kind tree' "$work/automatic.log" || fail "not a tree: $(cat "$work/automatic.log")"
# Names of classes.
printf '3 9 3\n0 0:1\n1 1:1\n2 2:1 3:1\n' >"$work/named.xmc"
printf 'first class\nsecond\nthird: 3\n' >"$work/names"
"$program" train --data "$work/named.xmc" --label-names "$work/names" --output "$work/named" >/dev/null
cmp "$work/names" "$work/named/labels.txt"
"$program" predict --model "$work/named" --top 1 "$work/named.xmc" | cut -f1 | cmp - "$work/names"
for wrong in 'a\nb\n' 'a\nb\na\n' 'a\n\nb\n'; do
  # shellcheck disable=SC2059
  printf "$wrong" >"$work/wrong_names"
  "$program" train --data "$work/named.xmc" --label-names "$work/wrong_names" >/dev/null 2>"$work/error" && fail "names: $wrong"
  grep -q 'models.config_value' "$work/error" || fail "another error: $(cat "$work/error")"
done
# Options of two kinds contradict each other.
for wrong in "--kind linear --width 8" "--c 1 --width 8" "--kind network --beam 3"; do
  code=0
  # shellcheck disable=SC2086
  "$program" train --classes 500 --points 64 $wrong >/dev/null 2>&1 || code=$?
  [ "$code" = 2 ] || fail "$wrong: exit code $code"
done
code=0
"$program" predict --model "$work/nothing" "$work/points.xmc" 2>/dev/null || code=$?
[ "$code" = 1 ] || fail "a model that is not there: exit code $code"
"$program" predict 2>/dev/null && fail "no model given" || [ $? = 2 ] || fail "not exit code 2"
# --tune measures several kinds, changes nothing, and says the same with a budget of passes.
mkdir "$work/tuning"
(cd "$work/tuning" && "$program" train --classes 300 --features 900 --points 1024 --tune-passes 1 >"$work/tuned")
(cd "$work/tuning" && "$program" train --classes 300 --features 900 --points 1024 --tune-passes 1 --threads 2 >"$work/tuned2")
cmp "$work/tuned" "$work/tuned2"
[ "$(tail -n +2 "$work/tuned" | grep -v '^best' | cut -f1 | sort -u | xargs)" = "linear network tree" ] ||
  fail "kinds: $(cat "$work/tuned")"
grep -q '^best: extreme_classifier train --classes 300' "$work/tuned" || fail "no command: $(cat "$work/tuned")"
[ -z "$(ls "$work/tuning")" ] || fail "tuning leaves files"
"$program" train --classes 300 --features 900 --points 1024 --tune 1 >"$work/tuned"
grep -q 'CPU s.*MiB.*us' "$work/tuned" && grep -q '^best: ' "$work/tuned" || fail "no result: $(cat "$work/tuned")"
code=0
"$program" train --classes 300 --tune 1 --checkpoint "$work/kept" >/dev/null 2>&1 || code=$?
[ "$code" = 2 ] || fail "--tune with --checkpoint: exit code $code"
# Texts with labels by name, one or several, in a tree and in a linear model.
words=(apple bread chair dress eagle flour grape horse igloo jelly)
for i in $(seq 0 999); do
  printf 'some %s thing and %s number %s\t%s,%s\n' "${words[i % 10]}" "${words[i / 10 % 10]}" "$i" \
    "tag ${words[i % 10]}" "kind ${words[i / 10 % 10]}"
done >"$work/texts.tsv"
for kind in linear tree; do
  "$program" train --data "$work/texts.tsv" --test "$work/texts.tsv" --multi-label --header no --kind "$kind" --output "$work/texts_$kind" \
    >"$work/texts.log" 2>&1
  awk '/^P@1/ { exit !($2 + 0 >= 0.95) }' "$work/texts.log" || fail "$kind of texts: $(cat "$work/texts.log")"
  [ "$(wc -l <"$work/texts_$kind/labels.txt")" = 20 ] || fail "$kind: labels $(cat "$work/texts_$kind/labels.txt")"
  "$program" evaluate --model "$work/texts_$kind" --data "$work/texts.tsv" --multi-label --header no >"$work/measured" 2>&1
  grep -q "$(grep -o '^P@1 [0-9.]*' "$work/texts.log")" "$work/measured" || fail "$kind is saved differently: $(cat "$work/measured")"
  printf 'some grape thing and horse\n\nunseen\n' |
    "$program" predict --model "$work/texts_$kind" --top 2 >"$work/lines"
  [ "$(sed -n 1p "$work/lines" | cut -f1,3 | tr '\t' '\n' | sort | xargs)" = "kind horse tag grape" ] ||
    fail "$kind: answers $(cat "$work/lines")"
  [ -z "$(sed -n 2p "$work/lines")" ] && [ -n "$(sed -n 3p "$work/lines")" ] || fail "$kind: lines $(cat "$work/lines")"
done
cut -f1 "$work/texts.tsv" | sed 's/$/\t/' >"$work/unlabelled.tsv"
code=0
"$program" train --data "$work/unlabelled.tsv" --multi-label --header no >/dev/null 2>"$work/error" || code=$?
[ "$code" = 1 ] || fail "texts without labels: exit code $code, $(cat "$work/error")"
for wrong in "--kind network" "--label-names $work/names"; do
  # shellcheck disable=SC2086
  "$program" train --data "$work/texts.tsv" $wrong >/dev/null 2>"$work/error" && fail "$wrong of texts"
  grep -q 'train.options' "$work/error" || fail "another error: $(cat "$work/error")"
done
