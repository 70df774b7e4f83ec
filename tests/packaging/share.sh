#!/usr/bin/env bash
# Runs a compiler, but takes an object that another test made of the same text with the same flags: several ways to use soma
# compile the same program and the same library. Usage: share.sh COMPILER ARGUMENTS...   (also as CMake's launcher)
# The objects are in $SOMA_OBJECTS, which packaging/objects empties when tests begin. Paths and definitions do not count,
# because the preprocessed text has what comes of them, and the order of flags does not. Whatever is no plain compilation is run as it is.
set -euo pipefail
output='' compiles='' source='' level=-O0
key=("")
preprocess=("$1")
arguments=("$@")
for ((i = 1; i < $#; ++i)); do
  argument=${arguments[i]}
  case $argument in
    -o | -MF | -MT | -MQ | -I | -isystem | -iquote | -D | -U)
      value=${arguments[++i]}
      if [ "$argument" = -o ]; then output=$value; else preprocess+=("$argument" "$value"); fi
      ;;
    -c) compiles=yes ;;
    -I* | -D* | -U* | -M* | -pthread) preprocess+=("$argument") ;;
    -O*)
      level=$argument
      preprocess+=("$argument")
      ;;
    *.cpp)
      if [ -n "$source" ]; then compiles=''; fi
      source=$argument
      preprocess+=("$argument")
      ;;
    -g* | -fsyntax-only | -E | -x | -S | -include | @*) exec "$@" ;; # -g: the object names folders
    *)
      key+=("$argument")
      preprocess+=("$argument")
      ;;
  esac
done
if [ -z "$compiles" ] || [ -z "$source" ] || [ -z "$output" ] || [ -z "${SOMA_OBJECTS:-}" ]; then exec "$@"; fi

# Markers of lines lose the paths. The numbers behind them say what is the system's and not warned of: without warnings they
# tell nothing, nor does white space.
plain() { sed 's/^# [0-9]* "[^"]*"/#/'; }
if ! printf '%s\n' "${key[@]}" | grep -q '^-W'; then
  plain() { sed '/^# [0-9]* "/d' | tr -d '[:space:]'; }
fi
mkdir -p "$SOMA_OBJECTS"
text=$("${preprocess[@]}" -E | plain | sha256sum)
name=$({ printf '%s\n' "${key[@]}" | sort && printf '%s\n' "$level" "$text" && readlink -f "$(command -v "$1")"; } | sha256sum | cut -d' ' -f1)
object=$SOMA_OBJECTS/$name.o
# Who comes second waits for the first.
exec 9>"$SOMA_OBJECTS/$name.lock"
if command -v flock >/dev/null; then flock 9; fi
if [ -f "$object" ]; then
  printf '(shared) %s\n' "$source"
else
  "$@" 9>&-
  cp "$output" "$object.$$"
  mv "$object.$$" "$object"
fi
cp "$object" "$output"
