#!/usr/bin/env bash
# Runs the speech node that setup.sh prepared.
#
#   ./run.sh [--url ws://127.0.0.1:5010] [--node-id speech-1] [--slots 2] [--text-input] [--check]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=${LINGUA_SPEECH_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/lingua/speech-node}
if [[ ! -e "$home/.ready" ]]; then
  echo "not prepared yet: run $here/setup.sh" >&2
  exit 1
fi
PYTHONPATH="$here/../../src:$here${PYTHONPATH:+:$PYTHONPATH}" exec "$home/bin/python" -m speech_node "$@"
