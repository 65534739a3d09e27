"""Speech taken apart and put together."""

from __future__ import annotations

import io
import struct
import wave

import numpy as np
import pytest

from lingua_node import JobFailed
from sound import assert_like_speech, loudest, tone
from speech_node.audio import RATE, decode, encode, resample, split
from speech_node.programs import ProgramFailed
from speech_node.tts import Espeak, samples_of


@pytest.mark.parametrize("form", ["pcm16", "opus"])
def test_sound_survives_the_way_out_and_in(form: str) -> None:
    audio, named = encode(tone(440, 1), form)
    assert named == form
    back = decode(audio, form, RATE)
    assert abs(len(back) - RATE) <= RATE // 20
    assert abs(loudest(back) - 440) < 3
    assert 0.25 < float(np.sqrt(np.mean(back**2))) < 0.45


def test_opus_is_a_run_of_packets_behind_their_lengths_and_small() -> None:
    audio, _ = encode(tone(440, 1), "opus")
    packets = list(split(audio))
    assert 50 <= len(packets) <= 52, "20 ms each"
    assert len(audio) < 2 * RATE / 5
    assert struct.unpack_from("<H", audio)[0] == len(packets[0])


def test_opus_in_stereo_becomes_mono() -> None:
    import av
    from av.audio.codeccontext import AudioCodecContext

    encoder = AudioCodecContext.create("libopus", "w")
    encoder.sample_rate, encoder.layout, encoder.format = 48000, "stereo", "s16"
    one = (tone(440, 0.02 * 50, 48000) * 32767).astype(np.int16)
    packets = []
    for at in range(0, len(one), 960):
        both = np.repeat(one[at : at + 960], 2).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(both, format="s16", layout="stereo")
        frame.sample_rate, frame.pts = 48000, at
        packets += [bytes(packet) for packet in encoder.encode(frame)]
    run = b"".join(struct.pack("<H", len(packet)) + packet for packet in packets)
    back = decode(run, "opus", RATE)
    assert abs(loudest(back) - 440) < 3 and abs(len(back) - RATE) < RATE // 10


def test_the_pitch_stays_when_the_rate_changes() -> None:
    for rate in (8000, 22050, 44100, 48000):
        there = resample(tone(440, 1, rate), rate)
        assert abs(len(there) - RATE) <= 64
        assert abs(loudest(there) - 440) < 3


def test_a_wav_file_of_any_rate_in_stereo_is_heard() -> None:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(2)
        out.setsampwidth(2)
        out.setframerate(44100)
        out.writeframes((np.repeat(tone(300, 1, 44100), 2) * 32767).astype("<i2").tobytes())
    heard = decode(file.getvalue(), "wav", RATE)
    assert abs(loudest(heard) - 300) < 3


@pytest.mark.parametrize(
    ("audio", "form", "code"),
    [
        (b"\0", "pcm16", "INVALID_AUDIO"),
        (b"\5\0\1", "opus", "INVALID_AUDIO"),
        (b"\5", "opus", "INVALID_AUDIO"),
        (b"\4\0\xff\xff\xff\xff", "opus", "INVALID_AUDIO"),
        (b"RIFF", "wav", "INVALID_AUDIO"),
        (b"", "wav", "INVALID_AUDIO"),
        (b"x", "mp3", "UNSUPPORTED_AUDIO"),
    ],
)
def test_audio_that_is_not_what_it_says_fails_its_job(audio: bytes, form: str, code: str) -> None:
    with pytest.raises(JobFailed) as failed:
        decode(audio, form, RATE)
    assert failed.value.code == code


def test_no_audio_is_silence() -> None:
    assert len(decode(b"", "pcm16", RATE)) == len(decode(b"", "opus", RATE)) == 0


async def test_spanish_sounds_like_speech() -> None:
    espeak = Espeak()
    short = await espeak.speak("Hola.", "es")
    long = await espeak.speak("El libro está en la mesa de la cocina.", "es")
    assert 0.3 < len(short) / RATE < 2 and 1.5 < len(long) / RATE < 6
    assert_like_speech(long)


async def test_a_text_that_looks_like_options_is_spoken() -> None:
    assert len(await Espeak().speak("--help -v en", "es")) > RATE // 2


def test_what_is_no_wav_is_a_failure() -> None:
    with pytest.raises(ProgramFailed):
        samples_of(b"nothing")
