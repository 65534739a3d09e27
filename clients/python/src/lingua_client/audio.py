"""Speech as the scheduler takes it: 16-bit little-endian samples, 16,000 a second, one channel."""

from __future__ import annotations

import array
import itertools
import sys
import wave
from collections.abc import AsyncIterable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

RATE = 16_000
"""Samples a second on the wire."""

PIECE_MS = 100
PIECE_BYTES = RATE * 2 * PIECE_MS // 1000


@runtime_checkable
class HasToList(Protocol):
    """An array of NumPy, and what is like it."""

    def tolist(self) -> Any:
        """As plain numbers."""


Samples: TypeAlias = "bytes | bytearray | memoryview | Sequence[float] | Sequence[int] | HasToList"
"""pcm16 bytes; whole numbers from -32768 to 32767; or fractions from -1 to 1."""

Source: TypeAlias = "str | PathLike[str] | Samples | AsyncIterable[Samples]"
"""A WAV file, samples, or a live source of them such as a microphone."""


def pcm16(samples: Samples, rate: int = RATE) -> bytes:
    """Samples of one channel at ``rate``, as the scheduler takes them."""
    if isinstance(samples, (bytes, bytearray, memoryview)):
        data = bytes(samples)
        if len(data) % 2:
            raise ValueError("pcm16: a sample has two bytes")
        if rate == RATE:
            return data
        values: Sequence[float] = _numbers(data)
    else:
        listed = samples.tolist() if isinstance(samples, HasToList) else list(samples)
        if listed and isinstance(listed[0], (list, tuple)):
            raise ValueError("samples: one channel, not several")
        # Whole numbers are samples as they are; a list of fractions has at least one that is no int.
        fractions = any(isinstance(value, float) for value in listed)
        values = [value * 32767 for value in listed] if fractions else listed
    return _bytes(resampled(values, rate))


def read_wav(path: str | PathLike[str]) -> bytes:
    """A WAV file of any rate and number of channels; :class:`ValueError` if it is none that is understood."""
    try:
        with wave.open(str(Path(path)), "rb") as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise ValueError(f"{path}: not a WAV file with PCM samples ({error})") from error
    if width == 2:
        values: Sequence[float] = _numbers(data)
    elif width == 1:
        values = [(byte - 128) * 256 for byte in data]
    else:
        # The two high bytes are enough.
        high = b"".join(data[at + width - 2 : at + width] for at in range(0, len(data) - width + 1, width))
        values = _numbers(high)
    if channels > 1:
        frames = zip(*(values[channel::channels] for channel in range(channels)), strict=False)
        values = [sum(frame) / channels for frame in frames]
    return _bytes(resampled(values, rate))


def resampled(values: Sequence[float], rate: int) -> Sequence[float]:
    """At 16,000 a second: the mean of what falls into each new sample, or straight lines where there is less."""
    if rate == RATE or not values:
        return values
    if not 1_000 <= rate <= 384_000:
        raise ValueError(f"rate: {rate} samples a second is not from 1000 to 384000")
    step = rate / RATE
    count = int(len(values) / step)
    if step < 1:
        last = len(values) - 1
        return [_between(values, min(at * step, last)) for at in range(count)]
    sums = [0.0, *itertools.accumulate(values)]
    edges = [_between(sums, min(at * step, len(values))) for at in range(count + 1)]
    return [(after - before) / step for before, after in itertools.pairwise(edges)]


def pieces(data: bytes) -> Iterable[bytes]:
    """Pieces of 100 ms."""
    return (data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES))


def _between(values: Sequence[float], at: float) -> float:
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def _numbers(data: bytes) -> array.array[int]:
    numbers = array.array("h", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _bytes(values: Sequence[float]) -> bytes:
    numbers = array.array("h", (max(-32768, min(32767, round(value))) for value in values))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()
