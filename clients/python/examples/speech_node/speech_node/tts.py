"""Speech: espeak-ng, run once for each text."""

from __future__ import annotations

import struct
import subprocess
from typing import Protocol

import numpy as np

from .audio import Samples, resample
from .programs import ProgramFailed, run

WORDS_A_MINUTE = 155


class Speaker(Protocol):
    """What the worker needs of a speaker."""

    languages: list[str]

    async def speak(self, text: str, lang: str) -> Samples:
        """The text as sound."""


class Espeak:
    """All languages that espeak-ng has a voice for."""

    def __init__(self) -> None:
        self.languages = voices()

    async def speak(self, text: str, lang: str) -> Samples:
        """The text as sound."""
        # By standard input: arguments are visible to everybody on the machine.
        said = " ".join(text.split())
        command = ["espeak-ng", "-v", lang, "-s", str(WORDS_A_MINUTE), "-b", "1", "--stdin", "--stdout"]
        return samples_of(await run(command, said.encode()))


def voices() -> list[str]:
    """The languages that there is a voice for, by tags of two or three letters; espeak-ng picks the voice."""
    listed = subprocess.run(
        ["espeak-ng", "--voices"],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
        timeout=10,
    ).stdout
    rows = [line.split() for line in listed.splitlines()[1:]]
    # Voices below mb/ need data that does not come along.
    return sorted({row[1].split("-")[0] for row in rows if len(row) >= 5 and not row[4].startswith("mb/")})


def samples_of(wav: bytes) -> Samples:
    """What espeak-ng wrote. It does not know the length when it begins, so the header's is not looked at."""
    if wav[:4] != b"RIFF" or wav[36:40] != b"data":
        raise ProgramFailed("espeak-ng: not a WAV file")
    (rate,) = struct.unpack_from("<I", wav, 24)
    body = wav[44 : len(wav) - len(wav) % 2]
    return resample(np.frombuffer(body, dtype="<i2").astype(np.float32) / np.float32(32768), rate)
