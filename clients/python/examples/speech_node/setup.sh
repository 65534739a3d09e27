#!/usr/bin/env bash
# Prepares the speech node: Debian's engines and a Python environment of its own. Done before, it is done at once.
#
#   ./setup.sh             installs missing packages if it may: as root, or by a sudo that asks nothing
#   ./setup.sh --no-root   installs none, and says which are missing
#
# The environment is kept in LINGUA_SPEECH_HOME, or in ~/.cache/lingua/speech-node. PYTHON names another python3 (3.10 or newer).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=${LINGUA_SPEECH_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/lingua/speech-node}
python=${PYTHON:-python3}

# The list of packages is a part of the source tree. Elsewhere nothing is installed, and the node says when it is started
# what it misses.
install=$here/../../../../scripts/install-needs
may=--no-password
[[ "${1:-}" != --no-root ]] || may=--no-root
[[ ! -x "$install" ]] || "$install" "$may" speech

command -v "$python" >/dev/null || {
  echo "please install first: sudo apt-get install python3 python3-venv" >&2
  exit 1
}
wanted=$({ "$python" --version && cat "$here/requirements.txt"; } | sha256sum)
if [[ "$(cat "$home/.ready" 2>/dev/null)" == "$wanted" ]]; then
  echo "== ready: $home"
  exit 0
fi

echo "== making a Python environment in $home"
rm -f "$home/.ready"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
  echo "needs Python 3.10 or newer, not $("$python" --version)" >&2
  exit 1
}
"$python" -m venv "$home" || {
  echo "please install first: sudo apt-get install python3-venv" >&2
  exit 1
}
echo "== installing the recogniser and the codecs (about 110 MB are downloaded once)"
quiet=(--quiet)
[[ -t 1 ]] && quiet=() # pip draws its progress on a terminal
"$home/bin/python" -m pip install "${quiet[@]}" --disable-pip-version-check -r "$here/requirements.txt"
echo "$wanted" >"$home/.ready"
echo "== ready: $home ($(du -sh "$home" | cut -f1))"
