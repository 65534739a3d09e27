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

packages=(espeak-ng apertium apertium-lex-tools apertium-eng-spa hunspell hunspell-en-us)
signs=(/usr/bin/espeak-ng /usr/bin/apertium /usr/bin/lrx-proc /usr/share/apertium/modes/eng-spa.mode /usr/bin/hunspell
  /usr/share/hunspell/en_US.dic)

missing=()
for i in "${!packages[@]}"; do
  [[ -e "${signs[$i]}" ]] || missing+=("${packages[$i]}")
done
if ((${#missing[@]})); then
  root=()
  ((EUID == 0)) || root=(sudo -n)
  if [[ "${1:-}" == --no-root ]] || ! command -v apt-get >/dev/null || { ((EUID != 0)) && ! sudo -n true 2>/dev/null; }; then
    echo "please install first: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  echo "== installing ${missing[*]}"
  "${root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
fi

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
