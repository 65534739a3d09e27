"""The messages, as the protocol has them."""

from __future__ import annotations

import base64
import binascii
import json
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lingua_socket import Invalid as Invalid
from lingua_socket import decode as decode

from .job import Job, Result

SUPPORTS = ("ack", "cancel", "tokens", "result_ack")
"""What this library does; ``binary_audio`` and ``text`` come on top where they are wanted."""

AUDIO_FRAME = 0x21
"""First byte of a binary frame that carries the audio of a job."""

MAX_INCOMING = 8 << 20
"""Bytes of a message from the scheduler: an utterance has at most 2 MiB, in base64 a third more."""

MAX_OUTGOING = 15 << 20
"""Bytes of a message to the scheduler, which takes 16 MiB."""

MAX_LANGUAGES = 64
"""In one list, by the protocol."""


@dataclass(frozen=True)
class Languages:
    """What a node can do, by language. A job needs its source in ``asr`` and ``semantic``, its pair in
    ``nmt_pairs``, and its target in ``tts`` if the answer is to be spoken.
    """

    semantic: Sequence[str]
    """What it can repair after recognition."""
    asr: Sequence[str]
    """What it can recognise."""
    nmt_pairs: Sequence[tuple[str, str]] | Literal["any"]
    """What it translates from and into."""
    tts: Sequence[str] = ()
    """What it can speak."""

    def __post_init__(self) -> None:
        for name in ("semantic", "asr", "tts"):
            tags = getattr(self, name)
            if isinstance(tags, str) or len(tags) > MAX_LANGUAGES:
                raise ValueError(f"{name}: a list of at most {MAX_LANGUAGES} languages")
        if isinstance(self.nmt_pairs, str) and self.nmt_pairs != "any":
            raise ValueError('nmt_pairs: a list of pairs, or "any"')

    def describe(self) -> str:
        """The directions, for people: the first eight."""
        if isinstance(self.nmt_pairs, str):
            return f"from {', '.join(self.asr) or 'nothing'} into any language"
        pairs = [f"{src}->{tgt}" for src, tgt in self.nmt_pairs]
        more = f" and {len(pairs) - 8} more" if len(pairs) > 8 else ""
        return ", ".join(pairs[:8]) + more or "no directions"

    def to_json(self) -> dict[str, Any]:
        """As ``language_capabilities``."""
        pairs = self.nmt_pairs if isinstance(self.nmt_pairs, str) else [list(pair) for pair in self.nmt_pairs]
        return {
            "asr_languages": list(self.asr),
            "semantic_languages": list(self.semantic),
            "tts_languages": list(self.tts),
            "nmt_pairs": pairs,
            "semantic_core_ready": True,
        }


@dataclass(frozen=True)
class Identity:
    """What a node says of itself when it registers."""

    languages: Languages
    slots: int
    binary_audio: bool = True
    accept_public_jobs: bool = True
    version: str = ""
    services: Mapping[str, bool] = field(default_factory=dict)
    hardware: Mapping[str, Any] | None = None
    region: str | None = None
    cost: float | None = None
    takes_text: bool = False


def register(identity: Identity, node_id: str | None, running: list[dict[str, Any]], health: str) -> str:
    """``node_register``"""
    message: dict[str, Any] = {
        "type": "node_register",
        "version": identity.version,
        "platform": platform.system().lower(),
        "capability_schema_version": "2.0",
        "language_capabilities": identity.languages.to_json(),
        "capability_by_type": [{"type": kind, "ready": ready} for kind, ready in identity.services.items()],
        "max_concurrent_jobs": identity.slots,
        "accept_public_jobs": identity.accept_public_jobs,
        "supports": [
            *SUPPORTS,
            *(["binary_audio"] if identity.binary_audio else []),
            *(["text"] if identity.takes_text else []),
        ],
        "health": health,
        "running": running,
    }
    if identity.hardware is not None:
        message["hardware"] = dict(identity.hardware)
    if identity.region is not None:
        message["region"] = identity.region
    if identity.cost is not None:
        message["cost"] = identity.cost
    if node_id is not None:
        message["node_id"] = node_id
    return encode(message)


def heartbeat(node_id: str, running: list[dict[str, Any]], health: str, usage: Mapping[str, float]) -> str:
    """``node_heartbeat``"""
    return encode(
        {
            "type": "node_heartbeat",
            "node_id": node_id,
            "timestamp": epoch_ms(),
            "resource_usage": {**usage, "running_jobs": len(running)},
            "health": health,
            "running": running,
        }
    )


def about(kind: str, head: Mapping[str, Any], fields: Mapping[str, Any] | None = None) -> str:
    """A word about a job. ``head`` is what all of them carry."""
    return encode({**(fields or {}), "type": kind, **head})


def result_fields(job: Job, result: Result, took_ms: int) -> dict[str, Any]:
    """The fields of a ``job_result`` that is a success."""
    fields: dict[str, Any] = {
        "utterance_index": job.utterance_index,
        "success": True,
        "text_asr": result.text_asr,
        "text_translated": result.text_translated,
        "tts_audio": base64.b64encode(result.tts_audio).decode("ascii"),
        "tts_format": result.tts_format,
        "processing_time_ms": took_ms,
        "node_completed_at_ms": epoch_ms(),
    }
    for name in ("extra", "service_timings", "network_timings", "segments_meta", "reason_codes"):
        value = getattr(result, name)
        if value is not None:
            fields[name] = dict(value) if isinstance(value, Mapping) else list(value)
    for name in ("asr_quality_level", "quality_score", "rerun_count"):
        value = getattr(result, name)
        if value is not None:
            fields[name] = value
    return fields


def failure_fields(
    job: Job, code: str, message: str, took_ms: int, details: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The fields of a ``job_result`` that is none."""
    error: dict[str, Any] = {"code": code, "message": message[:512]}
    if details is not None:
        error["details"] = dict(details)
    return {
        "utterance_index": job.utterance_index,
        "success": False,
        "error": error,
        "processing_time_ms": took_ms,
        "node_completed_at_ms": epoch_ms(),
    }


def encode(message: Mapping[str, Any]) -> str:
    """As the text of one frame; :class:`Invalid` if that cannot be."""
    try:
        text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode("utf-8"))
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"the message is not JSON ({type(error).__name__})") from error
    if size > MAX_OUTGOING:
        raise Invalid(f"the message has {size} bytes, more than {MAX_OUTGOING}")
    return text


def text_of(message: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A field that is a text; without ``default`` it must be there."""
    value = message.get(name)
    if isinstance(value, str):
        return value
    if default is not None and value is None:
        return default
    raise Invalid(f"{name}: not a text")


def whole_of(message: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """A field that is a whole number; without ``default`` it must be there."""
    value = message.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if default is not None and value is None:
        return default
    raise Invalid(f"{name}: not a number")


def texts_of(message: Mapping[str, Any], name: str) -> list[str]:
    """A field that is a list of texts; empty if it is not there."""
    value = message.get(name)
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return value
    raise Invalid(f"{name}: not a list of texts")


def job_of(message: Mapping[str, Any], audio: bytes) -> Job:
    """The job of a ``job_assign``."""
    pipeline = message.get("pipeline")
    deadline = message.get("deadline_ms")
    return Job(
        id=text_of(message, "job_id"),
        attempt=whole_of(message, "attempt_id", 1),
        session_id=text_of(message, "session_id", ""),
        utterance_index=whole_of(message, "utterance_index", 0),
        src_lang=text_of(message, "src_lang"),
        tgt_lang=text_of(message, "tgt_lang"),
        audio=audio,
        audio_format=text_of(message, "audio_format", "opus"),
        sample_rate=whole_of(message, "sample_rate", 16000),
        pipeline=pipeline if isinstance(pipeline, dict) else {},
        wants_partials=message.get("enable_streaming_asr") is True,
        message={name: value for name, value in message.items() if name not in ("audio", "text", "lease_token")},
        deadline_ms=deadline if isinstance(deadline, int) else None,
        text=None if message.get("text") is None else text_of(message, "text"),
    )


def head_of(message: Mapping[str, Any], node_id: str) -> dict[str, Any]:
    """What every word about the job of this ``job_assign`` carries."""
    head = {"job_id": text_of(message, "job_id"), "attempt_id": whole_of(message, "attempt_id", 1), "node_id": node_id}
    for name in ("session_id", "trace_id", "lease_token"):
        if message.get(name) is not None:
            head[name] = message[name]
    return head


def inline_audio(message: Mapping[str, Any]) -> bytes | None:
    """The audio within a ``job_assign``, empty where a text is in its place; ``None`` if it comes behind it."""
    if message.get("text") is not None:
        return b""
    if message.get("audio") is None:
        return None
    try:
        return base64.b64decode(text_of(message, "audio"), validate=True)
    except binascii.Error as error:
        raise Invalid("audio: not base64") from error


def audio_frame(frame: bytes) -> tuple[str, bytes]:
    """The job and the audio of a binary frame."""
    if len(frame) < 2 or frame[0] != AUDIO_FRAME or len(frame) < 2 + frame[1]:
        raise Invalid("not an audio frame")
    end = 2 + frame[1]
    try:
        return frame[2:end].decode("ascii"), frame[end:]
    except UnicodeDecodeError as error:
        raise Invalid("not an audio frame") from error


def named(keys: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    """As ``running``."""
    return [{"job_id": job_id, "attempt_id": attempt} for job_id, attempt in keys]


def epoch_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
