# Python packages for the slow tests beside other programs. Sourced.
# shellcheck shell=bash

skip() {
  printf 'SKIPPED: %s\n' "$*"
  exit 77
}

# python_with <work> <package>...: sets $python to one of the folder's own that has the packages of PyPI; what cannot be
# installed skips the test.
python_with() {
  local work=$1 missing=0 package
  shift
  mkdir -p "$work"
  python=$work/venv/bin/python
  for package in "$@"; do "$python" -c "import ${package//-/_}" 2>/dev/null || missing=1; done
  [ "$missing" = 1 ] || return 0
  [ -x "$python" ] || python3 -m venv "$work/venv" >"$work/venv.log" 2>&1 ||
    skip "python3 -m venv failed (on Debian: apt-get install python3-venv); see $work/venv.log"
  "$python" -m pip install --disable-pip-version-check --retries 2 "$@" >"$work/pip.log" 2>&1 ||
    skip "pip could not install $* from PyPI; see $work/pip.log"
}
