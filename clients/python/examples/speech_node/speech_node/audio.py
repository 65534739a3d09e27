"""Speech in the forms of the protocol: opus, pcm16 and wav, in and out."""

from __future__ import annotations

import io
import struct
import wave
from collections.abc import Iterator

import av
import numpy as np
import numpy.typing as npt
from av.audio.codeccontext import AudioCodecContext
from av.error import FFmpegError

from lingua_node import JobFailed

RATE = 16_000
"""Samples a second, here and in sessions."""

MAX_SECONDS = 60
"""Speech that is taken in; an utterance has at most 30 s."""

OPUS_RATE = 48_000
"""What Opus decodes to, whatever went in."""

OPUS_BITS_PER_SECOND = 24_000
"""Enough for clear speech."""

FRAME = RATE // 50
"""Samples of one Opus packet: 20 ms."""

# One channel, nothing to skip. Packets without a file around them have no header of their own.
_OPUS_HEAD = b"OpusHead" + struct.pack("<BBHIhB", 1, 1, 0, OPUS_RATE, 0, 0)

Samples = npt.NDArray[np.float32]
"""Mono, from -1 to 1, at :data:`RATE` unless said otherwise."""


def decode(audio: bytes, form: str, rate: int) -> Samples:
    """The samples of a job's audio; ``JobFailed`` if it is not what it says."""
    if form == "pcm16":
        return resample(_pcm16(audio), rate)
    if form == "wav":
        return _wav(audio)
    if form == "opus":
        return _opus(audio)
    raise JobFailed("UNSUPPORTED_AUDIO", f"audio_format {form[:16]!r} is none of opus, pcm16 and wav")


def encode(samples: Samples, form: str) -> tuple[bytes, str]:
    """Speech in the form in which the speaker spoke, and the name of that form."""
    if form == "opus":
        return b"".join(struct.pack("<H", len(packet)) + packet for packet in _packets(samples)), "opus"
    return (np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes(), "pcm16"


def resample(samples: Samples, rate: int, to: int = RATE) -> Samples:
    """The same sound at another rate."""
    if rate == to or not len(samples):
        return samples
    frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="flt", layout="mono")
    frame.sample_rate = rate
    resampler = av.AudioResampler(format="flt", layout="mono", rate=to)
    pieces = [piece.to_ndarray()[0] for piece in [*resampler.resample(frame), *resampler.resample(None)]]
    return np.concatenate(pieces).astype(np.float32)


def _pcm16(audio: bytes) -> Samples:
    if len(audio) % 2:
        raise JobFailed("INVALID_AUDIO", "pcm16 has two bytes a sample")
    samples: Samples = np.frombuffer(audio, dtype="<i2").astype(np.float32) / np.float32(32768)
    return samples


def _wav(audio: bytes) -> Samples:
    try:
        with wave.open(io.BytesIO(audio)) as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            frames = file.readframes(rate * MAX_SECONDS)
    except (wave.Error, EOFError, struct.error) as error:
        raise JobFailed("INVALID_AUDIO", "not a WAV file") from error
    if width != 2 or not channels or not 8_000 <= rate <= 192_000:
        raise JobFailed("UNSUPPORTED_AUDIO", "WAV must have 16 bits and 8000 to 192000 samples a second")
    whole = frames[: len(frames) - len(frames) % (2 * channels)]
    mono: Samples = _pcm16(whole).reshape(-1, channels).mean(axis=1, dtype=np.float32)
    return resample(mono, rate)


def _opus(audio: bytes) -> Samples:
    decoder = AudioCodecContext.create("opus", "r")
    decoder.extradata = _OPUS_HEAD
    pieces: list[Samples] = []
    samples = 0
    try:
        for packet in split(audio):
            for frame in decoder.decode(av.Packet(packet)):
                piece = _mono(frame)
                samples += len(piece)
                if samples > OPUS_RATE * MAX_SECONDS:
                    raise JobFailed("INVALID_AUDIO", f"more than {MAX_SECONDS} s of speech")
                pieces.append(piece)
    except FFmpegError as error:
        raise JobFailed("INVALID_AUDIO", "a packet is not Opus") from error
    return resample(np.concatenate(pieces), OPUS_RATE) if pieces else np.zeros(0, np.float32)


def _mono(frame: av.AudioFrame) -> Samples:
    planes: Samples = frame.to_ndarray().astype(np.float32)
    if not frame.format.is_planar:
        planes = planes.reshape(-1, frame.layout.nb_channels).T
    mono: Samples = planes.mean(axis=0, dtype=np.float32)
    return mono


def split(audio: bytes) -> Iterator[bytes]:
    """The packets of a run of ``[u16 LE length][packet]``."""
    at = 0
    while at < len(audio):
        if at + 2 > len(audio):
            raise JobFailed("INVALID_AUDIO", "the audio ends within the length of a packet")
        (length,) = struct.unpack_from("<H", audio, at)
        packet = audio[at + 2 : at + 2 + length]
        if len(packet) != length:
            raise JobFailed("INVALID_AUDIO", "the audio ends within a packet")
        if packet:
            yield packet
        at += 2 + length


def _packets(samples: Samples) -> Iterator[bytes]:
    encoder = AudioCodecContext.create("libopus", "w")
    encoder.sample_rate, encoder.layout, encoder.format = RATE, "mono", "s16"
    encoder.bit_rate, encoder.options = OPUS_BITS_PER_SECOND, {"application": "voip"}
    padded = np.concatenate([samples, np.zeros(-len(samples) % FRAME, np.float32)])
    whole = (np.clip(padded, -1, 1) * 32767).astype(np.int16)
    for at in range(0, len(whole), FRAME):
        frame = av.AudioFrame.from_ndarray(whole[at : at + FRAME].reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate, frame.pts = RATE, at
        for packet in encoder.encode(frame):
            yield bytes(packet)
    for packet in encoder.encode(None):
        yield bytes(packet)
