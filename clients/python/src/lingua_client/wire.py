"""The messages of the session socket, as the protocol has them."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lingua_socket import Invalid as Invalid
from lingua_socket import decode as decode

SUPPORTS = ("binary", "audio_ack", "resume", "events")


@dataclass(frozen=True)
class Translation:
    """An utterance that was translated."""

    index: int
    """From 0, in the order of speech."""
    turn: int
    """What :meth:`Session.speak` returned for the speech that it belongs to."""
    heard: str
    text: str
    audio: bytes
    """The translation as speech; may be empty."""
    audio_format: str
    """``opus``, ``pcm16`` or ``wav``."""
    part: int
    """Long speech is cut into parts; from 0."""
    job_id: str
    message: Mapping[str, Any] = field(repr=False)
    """The whole ``translation_result`` but for the audio."""
    src_lang: str = ""
    """The language spoken; ``auto`` or empty if the scheduler does not name it."""
    tgt_lang: str = ""
    """The language of the translation."""

    def __repr__(self) -> str:
        """Sizes alone: what people said does not belong in logs."""
        return f"<Translation {self.index} heard={len(self.heard)} text={len(self.text)} audio={len(self.audio)}>"


@dataclass(frozen=True)
class Missing:
    """An utterance without a translation."""

    index: int
    turn: int
    reason: str
    """``silence_detected``, ``no_capable_node``, ``all_nodes_busy``, … as the protocol lists them."""
    code: str | None = None
    """The error behind it, if the scheduler told one."""
    hint: str | None = None
    tgt_lang: str = ""
    """The language that is missing; empty if every target is meant."""


Ending: TypeAlias = "Translation | Missing"


def session_init(
    src: str,
    tgt: str,
    *,
    token: str | None,
    resume_token: str | None,
    last_index: int | None,
    options: Mapping[str, Any],
    targets: Sequence[str] = (),
    last_indexes: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The first message. ``targets``: if they are several."""
    message: dict[str, Any] = {
        "client_version": "lingua-client/0.1.0",
        "platform": "python",
        **options,
        "type": "session_init",
        "src_lang": src,
        "tgt_lang": tgt,
        "codec": "pcm16",
        "supports": list(SUPPORTS),
    }
    if targets:
        message["targets"] = list(targets)
    if token:
        message["token"] = token
    if resume_token is not None:
        message["resume_token"] = resume_token
        if last_index is not None:
            message["last_index"] = last_index
        if last_indexes:
            message["last_indexes"] = dict(last_indexes)
    return message


def audio_frame(seq: int, audio: bytes, *, is_final: bool) -> bytes:
    """A piece of speech as a binary frame; the session's id may be left out, and is."""
    if is_final and not audio:
        return struct.pack("<BBII", 0x02, 0, seq, 0)
    return struct.pack("<BBIIBB", 0x01, 0, seq, 0, int(is_final), 0) + audio


def number_of(message: Mapping[str, Any], name: str) -> int | None:
    """A field that is a whole number."""
    value = message.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text_of(message: Mapping[str, Any], name: str) -> str:
    """A field that is a text; empty if it is not there."""
    value = message.get(name)
    return value if isinstance(value, str) else ""


def translation_of(message: Mapping[str, Any], index: int, turn: int) -> Translation:
    """The ending of a ``translation_result``."""
    try:
        audio = base64.b64decode(text_of(message, "tts_audio"), validate=True)
    except binascii.Error as error:
        raise Invalid("tts_audio: not base64") from error
    return Translation(
        index=index,
        turn=turn,
        heard=text_of(message, "text_asr"),
        text=text_of(message, "text_translated"),
        audio=audio,
        audio_format=text_of(message, "tts_format"),
        part=number_of(message, "part_index") or 0,
        job_id=text_of(message, "job_id"),
        message={name: value for name, value in message.items() if name != "tts_audio"},
        src_lang=text_of(message, "src_lang"),
        tgt_lang=text_of(message, "tgt_lang"),
    )
