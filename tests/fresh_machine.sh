#!/usr/bin/env bash
# Plays the first user on a new machine: a minimal Debian, a checkout, and the two commands, twice each.
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'HELP'
usage: bash tests/fresh_machine.sh [bookworm|trixie|both] [examples|tests|both|packaging|first_step] [options]

Makes a minimal Debian with debootstrap in a temporary folder, clones this checkout's HEAD into it, and runs
examples/run.sh and/or tests/run.sh there as root, with no locale and an empty environment; then once more. The machine
is a plain chroot: no services, no namespaces of its own, /proc and /dev of this machine.
"packaging" runs tests/packaging/environments.sh there, once: each way of using soma with the release's compilers.
"first_step" runs, each on a machine of its own, tests/first_program.sh and examples/run.sh with one training step, and
prints the seconds from cloning to the end of that step; more than --limit are a failure.
Needs root and debootstrap. Default: both releases, both commands.

  --worktree     take the working tree instead of HEAD
  --keep         leave the folder, and say where it is
  --fresh        do not reuse build/fresh_machine/<release>.tar
  --mirror URL   mirror of Debian (default: debootstrap's own)
  --host-certs   let pip there trust the certificates that this machine trusts, for networks with their own
  --limit N      seconds that first_step may take (default: 150, which is meant for two cores)
  --once         run each command once; the second run shows that a machine with all packages works, too
  --skip         exit code 77 where no machine can be made: not root, no debootstrap, no mirror
  --folder DIR   where to put the machines (default: a temporary folder)

resolv.conf and hosts are this machine's; PIP_* and *_proxy are passed on if they are set.
HELP
}

releases=(bookworm trixie)
commands=(examples tests)
limit=150 skips='' rounds=(first second)
worktree='' keep='' fresh='' mirror='' host_certs='' folder=''
while [ $# -gt 0 ]; do
  case $1 in
    bookworm | trixie) releases=("$1") ;;
    examples | tests | packaging) commands=("$1") ;;
    first_step) commands=(first_program first_example) ;;
    both) ;;
    --worktree) worktree=yes ;;
    --keep) keep=yes ;;
    --fresh) fresh=yes ;;
    --mirror) mirror=${2:?--mirror needs a URL} && shift ;;
    --host-certs) host_certs=yes ;;
    --once) rounds=(first) ;;
    --skip) skips=yes ;;
    --limit) limit=${2:?--limit needs seconds} && shift ;;
    --folder) folder=${2:?--folder needs a folder} && shift ;;
    --help | -h) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift
done

stop() {
  if [ -n "$skips" ]; then
    printf 'SKIPPED: %s\n' "$*"
    exit 77
  fi
  printf 'stopped: %s\n' "$*" >&2
  exit 1
}
[ "$(id -u)" -eq 0 ] || stop "run this as root: debootstrap and chroot need it"
command -v debootstrap >/dev/null || stop "debootstrap is missing: apt-get install debootstrap"
command -v git >/dev/null || stop "git is missing: apt-get install git"

work=$(mktemp -d "${folder:-${TMPDIR:-/tmp}}/soma_machine.XXXXXX")
chmod 755 "$work"
# shellcheck source=tests/machine.sh
source "$project/tests/machine.sh"
results=()

clean_up() {
  unmount_all
  if [ -n "$keep" ]; then
    printf 'kept: %s\n' "$work"
  elif ! grep -qF " $work/" /proc/mounts; then
    rm -rf --one-file-system "$work"
  else
    printf 'not removed, something is still mounted in it: %s\n' "$work" >&2
  fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# The checkout arrives by git, as at a user's: nothing that is ignored or not committed can help.
put_checkout() {
  local target=$1
  if [ -n "$worktree" ]; then
    mkdir -p "$target"
    (cd "$project" && git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
      while IFS= read -r -d '' file; do if [ -e "$file" ]; then printf '%s\0' "$file"; fi; done |
      tar -cf - --null --no-recursion -T -) | tar -xf - -C "$target"
  else
    git -c safe.directory='*' clone --quiet --no-local "$project" "$target"
  fi
}

# in_machine <machine> <script> [arguments]: from / and with stdin closed, the least friendly way to start a command
in_machine() {
  local machine=$1 script=$2 environment=()
  shift 2
  mapfile -d '' environment < <(passed_on)
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root ${environment[@]+"${environment[@]}"} \
    chroot "$machine" bash "/soma/$script" "$@" <&-
}

# The table of packages, with the compilers and libraries of the release.
make_table() {
  local release=$1 machine=$2 log=$work/$1.packaging.log code=0 environment=()
  mapfile -d '' environment < <(passed_on)
  printf '==== %s: tests/packaging/environments.sh\n' "$release"
  SECONDS=0
  # shellcheck disable=SC2016  # it is the other machine's shell that expands
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
    ${environment[@]+"${environment[@]}"} chroot "$machine" bash -ec '
      dpkg --add-architecture arm64
      apt-get update -q
      clang=$(apt-cache depends clang | sed -n "s/.*Depends: clang-\([0-9]*\)$/\1/p")
      apt-get install -q -y --no-install-recommends g++ cmake ninja-build git python3 python3-venv pkg-config clang \
        "libc++-$clang-dev" "libc++abi-$clang-dev" libhwy-dev libmsgsl-dev libxtensor-dev nlohmann-json3-dev libxxhash-dev \
        libutf8proc-dev zlib1g-dev libprotozero-dev libcli11-dev libboost-dev \
        g++-aarch64-linux-gnu qemu-user-static libhwy-dev:arm64 libutf8proc-dev:arm64 zlib1g-dev:arm64
      bash /soma/tests/packaging/environments.sh' >"$log" 2>&1 <&- || code=$?
  if [ "$code" -ne 0 ]; then
    tail -n 60 "$log"
    failed=yes
  else
    sed -n '/^way .*result$/,$p' "$log"
  fi
  results+=("$(printf '%-9s %-13s %-7s %4d  %5d s  %s' "$release" packaging once "$code" "$SECONDS" "$(tail -n 1 "$log" | cut -c1-70)")")
}

# From cloning to the end of the first training step, once.
time_first_step() {
  local release=$1 machine=$2 command=$3 log=$work/$1.$3.log code=0 words=()
  case $command in
    first_program) words=(tests/first_program.sh) ;;
    first_example) words=(examples/run.sh --reviews 1000 --max-steps 1 --output /root/model) ;;
  esac
  printf '==== %s: a clone, and bash %s\n' "$release" "${words[*]}"
  SECONDS=0
  put_checkout "$machine/soma"
  in_machine "$machine" "${words[@]}" >"$log" 2>&1 || code=$?
  local seconds=$SECONDS last
  if [ "$code" -ne 0 ]; then tail -n 60 "$log"; fi
  last="at most $limit s"
  if [ "$code" -ne 0 ] || [ "$seconds" -gt "$limit" ]; then
    last+="   MISSED"
    failed=yes
  fi
  results+=("$(printf '%-9s %-13s %-7s %4d  %5d s  %s' "$release" "$command" once "$code" "$seconds" "$last")")
}

run_twice() {
  local release=$1 machine=$2 command=$3 round code seconds last log
  for round in "${rounds[@]}"; do
    log=$work/$release.$command.$round.log
    printf '==== %s: bash %s/run.sh, %s time\n' "$release" "$command" "$round"
    SECONDS=0
    code=0
    in_machine "$machine" "$command/run.sh" >"$log" 2>&1 || code=$?
    seconds=$SECONDS
    last=$(grep 'tests passed' "$log" || tail -n 1 "$log")
    if [ "$code" -ne 0 ]; then tail -n 60 "$log"; fi
    results+=("$(printf '%-9s %-13s %-7s %4d  %5d s  %s' "$release" "$command" "$round" "$code" "$seconds" \
      "${last:0:70}")")
    if [ "$code" -ne 0 ]; then
      failed=yes
      return
    fi
    grep -A 30 'did not run' "$log" || true
  done
}

failed=''
for release in "${releases[@]}"; do
  for command in "${commands[@]}"; do
    machine=$work/$release.$command
    printf '==== %s: making a minimal system\n' "$release"
    make_machine "$release" "$machine"
    connect "$machine"
    case $command in
      first_*) time_first_step "$release" "$machine" "$command" ;;
      packaging)
        put_checkout "$machine/soma"
        make_table "$release" "$machine"
        ;;
      *)
        put_checkout "$machine/soma"
        run_twice "$release" "$machine" "$command"
        ;;
    esac
    unmount_all
    [ -n "$keep" ] || rm -rf --one-file-system "$machine"
  done
done

printf '\n%-9s %-13s %-7s %4s  %7s  %s\n' release command run code time 'last line'
printf '%s\n' "${results[@]}"
[ -z "$failed" ]
