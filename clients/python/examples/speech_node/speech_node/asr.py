"""Recognition: Moonshine, whose wheel carries its model for English."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from lingua_node.threads import run_in_thread

from .audio import RATE, Samples

PARTIALS = 3
"""Looks at the beginning of an utterance on the way to its end. Each costs as much as it is long, so there are few."""

SHORTEST_STEP = RATE
"""Samples between two looks: a second."""


class Recogniser(Protocol):
    """What the worker needs of a recogniser."""

    languages: tuple[str, ...]

    async def recognise(self, samples: Samples, on_partial: Callable[[str], object] | None) -> str:
        """The words; empty if nothing was said."""


class Moonshine:
    """As many recognisers as may run at once: one of them hands out memory that its next call writes over."""

    languages: tuple[str, ...] = ("en",)

    def __init__(self, at_once: int) -> None:
        # Imported here, since it loads libraries that nothing else needs.
        from moonshine_voice import ModelArch, get_model_path
        from moonshine_voice.transcriber import Transcriber

        count = max(1, min(at_once, os.cpu_count() or 1))
        self._free: asyncio.Queue[Any] = asyncio.Queue(count)
        path = str(get_model_path("tiny-en"))
        for _ in range(count):
            options = {"return_audio_data": "false"}
            self._free.put_nowait(Transcriber(path, ModelArch.TINY, options=options))

    async def recognise(self, samples: Samples, on_partial: Callable[[str], object] | None) -> str:
        """The words; empty if nothing was said."""
        transcriber = await self._free.get()
        try:
            if on_partial is None or len(samples) < 2 * SHORTEST_STEP:
                return await run_in_thread(lambda: _whole(transcriber, samples))
            return await run_in_thread(lambda: _in_steps(transcriber, samples, on_partial))
        finally:
            self._free.put_nowait(transcriber)


def _whole(transcriber: Any, samples: Samples) -> str:
    return _words(transcriber.transcribe_without_streaming(samples.tolist(), RATE))


def _in_steps(transcriber: Any, samples: Samples, on_partial: Callable[[str], object]) -> str:
    # Not with Moonshine's own streams: what they make of an utterance in the end has two to three times as many
    # wrong words as one look at the whole, measured on the sentences of the tests.
    step = max(SHORTEST_STEP, -(-len(samples) // (PARTIALS + 1)))
    for end in range(step, len(samples), step):
        words = _whole(transcriber, samples[:end])
        if words:
            on_partial(words)
    return _whole(transcriber, samples)


def _words(transcript: Any) -> str:
    return " ".join(line.text.strip() for line in transcript.lines if line.text.strip())


def silence(milliseconds: int) -> Samples:
    """Nothing, for so long."""
    return np.zeros(RATE * max(0, min(milliseconds, 2000)) // 1000, np.float32)
