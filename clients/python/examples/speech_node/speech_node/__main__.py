"""``python -m speech_node``: loads the engines, tries them, and serves."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import sys

from lingua_node import Node, Refused
from lingua_node.node import DEFAULT_URL, socket_url

PROGRAMS = {"espeak-ng": "espeak-ng", "apertium": "apertium", "lrx-proc": "apertium-lex-tools", "hunspell": "hunspell"}


def main() -> int:
    """0: it was told to end, and everything had ended. 1: it could not work. 2: it was called wrongly."""
    parser = argparse.ArgumentParser(prog="speech_node", description=__doc__)
    parser.add_argument("--url", help="the scheduler [env: LINGUA_URL] [default: ws://127.0.0.1:5010]")
    parser.add_argument("--node-id", default="speech-1", help="its name, the same at every start [default: speech-1]")
    parser.add_argument("--slots", type=int, default=2, help="jobs at once, 1 to 64 [default: 2]")
    parser.add_argument(
        "--text-input",
        action="store_true",
        help="also offer directions whose source it cannot recognise, for callers who send the text in pipeline.text",
    )
    parser.add_argument("--check", action="store_true", help="try the engines and end")
    arguments = parser.parse_args()
    # Before anything is loaded.
    if not 1 <= arguments.slots <= 64:
        parser.error("--slots: from 1 to 64")
    try:
        socket_url(arguments.url or os.environ.get("LINGUA_URL") or DEFAULT_URL)
    except ValueError as error:
        parser.error(str(error))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    log = logging.getLogger("speech_node")

    missing = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if missing:
        log.error("please install: apt-get install %s", " ".join(missing))
        return 1

    # Only now: these load models and libraries.
    from .languages import declared
    from .programs import ProgramFailed
    from .worker import SpeechWorker

    worker = SpeechWorker.with_installed_engines(arguments.slots)
    pairs = worker.pairs(text_input=arguments.text_input)
    if not pairs:
        log.error("no pair that can be heard and spoken; please install: apt-get install apertium-eng-spa")
        return 1
    node = Node(
        worker.handle,
        declared(pairs),
        url=arguments.url,
        node_id=arguments.node_id,
        slots=arguments.slots,
        services={"asr": True, "semantic": True, "nmt": True, "tts": True},
        version="speech-node/0.1.0",
    )

    async def serve() -> bool:
        try:
            await worker.check()
            log.info("the engines work; served: %s", ", ".join(f"{src}->{tgt}" for src, tgt in pairs))
            return arguments.check or await node.serve(signals=True)
        finally:
            await worker.close()

    try:
        return 0 if asyncio.run(serve()) else 1
    except ProgramFailed as error:
        log.error("the engines do not work: %s", error)
    except Refused as refused:
        log.error("the scheduler does not want this node: %s", refused)
    return 1


if __name__ == "__main__":
    sys.exit(main())
