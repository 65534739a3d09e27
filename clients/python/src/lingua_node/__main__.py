"""The command ``lingua-node``."""

from __future__ import annotations

import argparse
import sys

from . import __version__
from .check import check, subject_of


def main(arguments: list[str] | None = None) -> int:
    """0: all is well. 1: no scheduler that takes work. 2: called wrongly. 3: the scheduler refuses the node."""
    parser = argparse.ArgumentParser(prog="lingua-node", description="For people who run a node of Lingua Scheduler.")
    parser.add_argument("--version", action="version", version=f"lingua-node {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser(
        "check",
        help="say what this machine has and whether the scheduler takes the node",
        description="Says what this machine has (GPU, engines, languages) and whether the scheduler takes the node. "
        "A node that is connected is looked at and not disturbed; another one is registered for a moment, "
        "without jobs. Exit codes: 0 taken, 1 no scheduler that takes work, 2 called wrongly, 3 refused.",
    )
    checking.add_argument("script", nargs="?", help="the node's script; it is run up to its Node(…).run()")
    checking.add_argument("--url", help="the scheduler [env: LINGUA_URL] [default: ws://127.0.0.1:5010]")
    checking.add_argument("--node-id", help="its name [default: the script's, else the token's subject]")
    checking.add_argument("--token-file", help="its token [env: LINGUA_NODE_TOKEN, LINGUA_NODE_TOKEN_FILE]")
    given = parser.parse_args(arguments)
    try:
        subject = subject_of(given.script, given.url, given.node_id, given.token_file)
    except (OSError, ValueError) as error:
        checking.error(str(error))
    return check(subject, say)


def say(what: str, text: str) -> None:
    """One row."""
    sys.stdout.write(f"{what:<11}{text}\n")


if __name__ == "__main__":
    sys.exit(main())
