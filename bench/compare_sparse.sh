#!/usr/bin/env bash
# The fast kind of text classifier beside fastText (also with its autotune of 30 s), Vowpal Wabbit and LinearSVC (words 1-2,
# parts of words 3-5) on labelled text, and extreme_classifier beside napkinXC
# on files of points (.xmc, .xmc.gz): CPU seconds of reading and training on one core, accuracy (of points P@1, P@3 and P@5) on
# the other file, and for ours the time from a text to its label. Runs alternate; least CPU seconds of three rounds, accuracy
# of each round's mean.
# Usage: bash bench/compare_sparse.sh PROGRAM WORK_FOLDER NAME=TRAIN,TEST[,EPOCHS] ... [--rounds=3]
#   PROGRAM      bert_classifier; extreme_classifier stands beside it
#   WORK_FOLDER  for the virtual environment (fasttext-wheel 0.9.2, vowpalwabbit 9.11.9, scikit-learn 1.5.2, napkinxc 0.7.2) and converted files
#   EPOCHS       of fastText and Vowpal Wabbit, default 5; ours chooses its own
# Example: bash bench/compare_sparse.sh build/release/bin/bert_classifier /tmp/sparse imdb=imdb/train.ft.txt.gz,imdb/dev.ft.txt.gz
# ThirdAI's package (0.9.33) wants a licence key, so it is not among the peers.
set -euo pipefail
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set /s/^# //p' "$0" && exit 0 ;; esac
[ $# -ge 3 ] || { sed -n '2,/^set /s/^# //p' "$0" >&2; exit 2; }
program=$1 work=$2
shift 2
mkdir -p "$work"
venv=$work/venv
if ! "$venv/bin/python" -c 'import fasttext' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet fasttext-wheel==0.9.2 'numpy<2' || echo "fastText cannot be installed: left out" >&2
  # Those without a wheel for this Python are compiled; what is missing for that is said in the log.
  for peer in vowpalwabbit==9.11.9 scikit-learn==1.5.2 napkinxc==0.7.2; do
    "$venv/bin/pip" install --quiet "$peer" 'numpy<2' >"$work/$peer.log" 2>&1 ||
      echo "$peer cannot be installed: left out ($(grep -m 1 -i error "$work/$peer.log"); $work/$peer.log)" >&2
  done
fi
exec "$venv/bin/python" -B "$(dirname "${BASH_SOURCE[0]}")/yardstick/sparse.py" "$program" "$work" "$@"
