#!/usr/bin/env bash
# The steps of examples/job/Dockerfile in minimal roots, without a container engine; then the image as a hosting service
# starts it. Usage: job_image.sh. Needs root, debootstrap and Debian's mirror; else exit code 77: skipped.
# Takes minutes: all of the program is compiled.
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
dockerfile=$project/examples/job/Dockerfile

skip() {
  printf 'SKIPPED: %s\n' "$*"
  exit 77
}
stop() {
  printf 'stopped: %s\n' "$*" >&2
  exit 1
}
[ "$(id -u)" -eq 0 ] || skip "not root"
command -v debootstrap >/dev/null || skip "debootstrap is missing"
unshare -m -n true 2>/dev/null || skip "no name spaces of its own"

fresh='' mirror='' host_certs=''
work=$(mktemp -d "${TMPDIR:-/tmp}/soma_image.XXXXXX")
chmod 755 "$work"
# shellcheck source=tests/machine.sh
source "$project/tests/machine.sh"
clean_up() {
  unmount_all
  if grep -qF " $work/" /proc/mounts; then
    printf 'not removed, something is still mounted in it: %s\n' "$work" >&2
  else
    rm -rf --one-file-system "$work"
  fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# in_root <root> <command...>: as an image's process runs, with nothing of this machine's environment but the way to
# the network.
in_root() {
  local root=$1 environment=()
  shift
  mapfile -d '' environment < <(passed_on)
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
    ${environment[@]+"${environment[@]}"} chroot "$root" "$@"
}

# ---- the steps

declare -A stages=()
root='' entry=()
step() {
  local keyword=$1 rest=$2 name words source
  case $keyword in
    FROM)
      [[ $rest =~ ^debian:([a-z]+)-slim(\ AS\ ([a-z]+))?$ ]] || stop "FROM $rest"
      name=${BASH_REMATCH[3]:-last}
      root=$work/$name
      stages[$name]=$root
      make_machine "${BASH_REMATCH[1]}" "$root" || skip "no minimal Debian: is the mirror there?"
      connect "$root"
      ;;
    RUN)
      in_root "$root" sh -c "$rest" >"$work/run.log" 2>&1 </dev/null || {
        tail -n 40 "$work/run.log" >&2
        grep -q 'Temporary failure\|Could not connect\|Unable to fetch' "$work/run.log" && skip "no network"
        stop "RUN $rest"
      }
      ;;
    COPY)
      source=$project
      read -ra words <<<"$rest"
      if [[ ${words[0]} == --from=* ]]; then
        source=${stages[${words[0]#--from=}]}
        words=("${words[@]:1}")
      fi
      # A folder's content goes into the folder that is named; a file into one that ends with /.
      if [ -d "$source/${words[0]}" ]; then
        mkdir -p "$root${words[1]}"
        cp -a "$source/${words[0]}/." "$root${words[1]}"
      else
        mkdir -p "$root$(dirname "${words[1]}x")"
        cp -a "$source/${words[0]}" "$root${words[1]}"
      fi
      ;;
    ENTRYPOINT) mapfile -t entry < <(python3 -c 'import json, sys; print(*json.loads(sys.argv[1]), sep="\n")' "$rest") ;;
    EXPOSE) ;;
    *) stop "an instruction that this test does not know: $keyword" ;;
  esac
}
line=''
while IFS= read -r part; do
  case $part in '#'* | '') continue ;; esac
  line+=$part
  if [[ $line == *\\ ]]; then
    line=${line%\\}
    continue
  fi
  printf '==== %.100s\n' "$line"
  step "${line%% *}" "${line#* }"
  line=''
done <"$dockerfile"

# ---- the image

job=$root/opt/ml
expect() { # expect <what> <command...>
  local what=$1
  shift
  "$@" || stop "$what"
  printf 'ok: %s\n' "$what"
}
lay_out() {
  rm -rf "$job"
  mkdir -p "$job"/input/config "$job"/input/data/train "$job"/model "$job"/output
  printf '{"train": {"TrainingInputMode": "File"}}' >"$job/input/config/inputdataconfig.json"
  printf '{"current_host": "algo-1", "hosts": ["algo-1"]}' >"$job/input/config/resourceconfig.json"
  printf '{"epochs": "2", "vocab-size": "200", "max-length": "16", "preset": "\\"tiny\\"", "quiet": "true"}' \
    >"$job/input/config/hyperparameters.json"
  python3 -c '
for i in range(300): print("dull" if i % 2 else "fine", "film number", i, end="\t%d\n" % (i % 2))' \
    >"$job/input/data/train/part-00000.tsv"
  touch "$job/input/data/train/_SUCCESS"
}
lay_out
code=0
in_root "$root" "${entry[@]}" train >"$work/train.log" 2>&1 || code=$?
[ "$code" = 0 ] || cat "$work/train.log"
expect "a job trains" test "$code" = 0
expect "its model is there" test -s "$job/model/model.safetensors"
expect "its log is there" test -s "$job/output/data/log.jsonl"
expect "it reports no failure" test ! -e "$job/output/failure"

# The endpoint, in a network of its own so that port 8080 is free.
serve_and_ask() {
  ip link set lo up
  # Not by in_root: the signal has to reach the program, not a shell around it.
  env -i "$(command -v chroot)" "$root" "${entry[@]}" serve >"$work/serve.log" 2>&1 &
  local server=$! asked=0
  python3 - <<'P' || asked=1
import json, time, urllib.request
for attempt in range(200):
    try:
        if urllib.request.urlopen("http://127.0.0.1:8080/ping").status == 200: break
    except OSError:
        time.sleep(0.05)
request = urllib.request.Request("http://127.0.0.1:8080/invocations", b'{"inputs": "fine film"}',
                                 {"Content-Type": "application/json", "Accept": "application/json"})
answer = json.load(urllib.request.urlopen(request))
assert answer["predictions"][0]["label"] in ("0", "1"), answer
P
  kill -TERM "$server"
  wait "$server" && [ "$asked" = 0 ] && return
  cat "$work/serve.log" >&2
  return 1
}
export -f serve_and_ask
export root work entry_words="${entry[*]}"
expect "its model is served" unshare -n bash -c 'read -ra entry <<<"$entry_words"; serve_and_ask'

lay_out
rm "$job"/input/data/train/*
code=0
in_root "$root" "${entry[@]}" train >"$work/train.log" 2>&1 || code=$?
expect "a job without rows fails" test "$code" != 0
expect "and says why" grep -q '\[text.folder\]' "$job/output/failure"
expect "without a model" test -z "$(ls "$job/model")"
echo "the image trains, serves and fails as it should"
