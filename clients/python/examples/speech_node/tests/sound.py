"""Sounds, and what they have to be like."""

from __future__ import annotations

import numpy as np

from speech_node.audio import RATE, Samples


def tone(hertz: float, seconds: float, rate: int = RATE) -> Samples:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)).astype(np.float32)


def loudest(samples: Samples, rate: int = RATE) -> float:
    spectrum = np.abs(np.fft.rfft(samples))
    return float(np.argmax(spectrum)) * rate / len(samples)


def assert_like_speech(samples: Samples) -> None:
    """Loud enough, with louder and softer parts, and most of it where voices are."""
    assert 0.02 < float(np.sqrt(np.mean(samples**2))) < 0.5
    pieces = samples[: len(samples) // 400 * 400].reshape(-1, 400)
    energy = np.sqrt(np.mean(pieces**2, axis=1))
    assert float(np.std(energy)) > 0.3 * float(np.mean(energy))
    spectrum = np.abs(np.fft.rfft(samples)) ** 2
    frequencies = np.fft.rfftfreq(len(samples), 1 / RATE)
    voice = spectrum[(frequencies > 80) & (frequencies < 4000)].sum() / spectrum.sum()
    assert float(voice) > 0.7
