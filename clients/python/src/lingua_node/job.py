"""What a worker sees: the job it is given, the result it returns, and the errors it may raise."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SHORTEST_PARTIAL_INTERVAL = 0.02
"""Seconds between two partials of a job, whatever was asked for: nobody reads faster."""


class Busy(Exception):  # noqa: N818 - reads as what the worker says
    """The worker has no room for this job now; it goes to another node and nobody is blamed."""


class MissingModel(Exception):  # noqa: N818
    """The worker lacks a model for this job; it goes to another node, and the fleet's operator is told."""

    def __init__(self, model_id: str | None = None, version: str | None = None) -> None:
        super().__init__(model_id or "a model is missing")
        self.model_id = model_id
        self.version = version


class JobFailed(Exception):  # noqa: N818
    """The job failed; ``code`` and ``message`` reach the caller when no attempt is left.

    ``code`` is a word such as ``NMT_TIMEOUT``. Put no transcript into ``message``: it may be logged.
    """

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.details = details


@dataclass(frozen=True)
class Result:
    """What a job became. Everything may be left out; what is there reaches the speaker as it is."""

    text_asr: str = ""
    """What was heard."""
    text_translated: str = ""
    """What it means."""
    tts_audio: bytes = b""
    """The translation as speech."""
    tts_format: str = ""
    """The form of that speech: ``opus``, ``pcm16`` or ``wav``."""
    extra: Mapping[str, Any] | None = None
    """Anything else, as JSON."""
    service_timings: Mapping[str, Any] | None = None
    """How long each stage took, in milliseconds by convention."""
    network_timings: Mapping[str, Any] | None = None
    asr_quality_level: str | None = None
    quality_score: float | None = None
    rerun_count: int | None = None
    reason_codes: Sequence[str] | None = None
    segments_meta: Mapping[str, Any] | Sequence[Any] | None = None

    @classmethod
    def nothing_said(cls, *, service_timings: Mapping[str, Any] | None = None) -> Result:
        """There was no speech in the audio. That is an ending without a translation, not a failure."""
        return cls(extra={"reason": "ASR_EMPTY"}, service_timings=service_timings)

    def __repr__(self) -> str:
        """Sizes alone: what people said does not belong in logs."""
        return f"<Result asr={len(self.text_asr)} translated={len(self.text_translated)} tts={len(self.tts_audio)}>"


@dataclass(eq=False, repr=False)
class Job:
    """One utterance to translate, as the scheduler assigned it."""

    id: str
    attempt: int
    """From 1; a job whose node failed comes again as the next attempt."""
    session_id: str
    utterance_index: int
    src_lang: str
    """May be ``auto``; then ``lang_a`` and ``lang_b`` say which two it can be."""
    tgt_lang: str
    audio: bytes
    audio_format: str
    """``opus`` (a run of packets, each behind its length as two bytes, low one first), ``pcm16`` or ``wav``."""
    sample_rate: int
    pipeline: Mapping[str, Any]
    """Which steps to take, such as ``use_tts``; see :meth:`wants`."""
    wants_partials: bool
    """The speaker wants words on the way; without that :meth:`partial` does nothing."""
    message: Mapping[str, Any]
    """The whole ``job_assign`` but for audio, text and token: ``dialect``, ``features``, ``context_text``, …"""
    deadline_ms: int | None = None
    """Milliseconds since 1970 on the scheduler's clock; see :meth:`seconds_left`."""
    text: str | None = None
    """What is to be translated in place of ``audio``, for a node with ``takes_text``: nothing has to be recognised."""
    is_cancelled: bool = False
    """Nobody wants the answer any more. An async worker is cancelled anyway; one in a thread should look."""

    _say: Callable[[str, Mapping[str, Any]], bool] = field(default=lambda _kind, _fields: False)
    _due: float | None = None
    """The deadline on this process's monotonic clock."""
    _next_partial: float = 0.0

    def wants(self, step: str) -> bool:
        """Whether to take a step, ``asr``, ``semantic``, ``nmt`` or ``tts``; all are wanted unless said otherwise."""
        return self.pipeline.get(f"use_{step}") is not False

    def seconds_left(self) -> float | None:
        """Until the deadline, when the worker is cancelled; ``None`` without one."""
        return None if self._due is None else self._due - time.monotonic()

    def partial(self, text: str, *, is_final: bool = False) -> bool:
        """Shows the speaker words on the way; from any thread. Tells whether they were sent.

        Passed over if the speaker does not want them, if they come more often than asked for (unless
        ``is_final``), and without a connection.
        """
        now = time.monotonic()
        if not self.wants_partials or self.is_cancelled or (now < self._next_partial and not is_final):
            return False
        asked = self.message.get("partial_update_interval_ms")
        interval = asked / 1000 if isinstance(asked, (int, float)) else 0.0
        self._next_partial = now + max(interval, SHORTEST_PARTIAL_INTERVAL)
        return self._say("asr_partial", {"utterance_index": self.utterance_index, "text": text, "is_final": is_final})

    def progress(self, stage: str, **more: Any) -> bool:
        """Tells which stage the job is in; from any thread. Tells whether it was sent."""
        return not self.is_cancelled and self._say("job_progress", {**more, "stage": stage})

    def __repr__(self) -> str:
        """Without audio and texts."""
        return f"<Job {self.id} attempt {self.attempt} {self.src_lang}->{self.tgt_lang}>"
