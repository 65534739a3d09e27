"""The parts of the app client that need no scheduler."""

from __future__ import annotations

import array
import itertools
import math
import wave
from pathlib import Path

import pytest

from lingua_client import Session, wire
from lingua_client.audio import pcm16, pieces, read_wav, resampled
from lingua_client.opening import session_url
from lingua_client.outbox import Outbox


def filled(*turns: int) -> Outbox:
    """Two pieces and an end for each turn."""
    outbox = Outbox()
    for turn in turns:
        outbox.push(b"ab", is_final=False, turn=turn)
        outbox.push(b"cd", is_final=False, turn=turn)
        outbox.push(b"", is_final=True, turn=turn)
    return outbox


def sent(outbox: Outbox) -> list[int]:
    found = []
    while (piece := outbox.next()) is not None:
        found.append(piece.seq)
    return found


def test_a_resumed_session_hears_what_was_not_acknowledged_and_nothing_else() -> None:
    outbox = filled(0, 1)
    assert sent(outbox) == [0, 1, 2, 3, 4, 5]
    outbox.ack(3)
    assert outbox.resume() == 2 and sent(outbox) == [4, 5]
    outbox.ended(2)
    assert outbox.bytes == 4 and not outbox.has_speech(0) and outbox.has_speech(1)
    assert outbox.resume() == 2 and sent(outbox) == [4, 5]


def test_another_session_hears_everything_without_an_ending_under_new_numbers() -> None:
    outbox = filled(0, 1)
    sent(outbox)
    outbox.ack(5)
    outbox.ended(2)
    assert outbox.restart() == 3 and sent(outbox) == [0, 1, 2]
    outbox.push(b"ef", is_final=False, turn=2)
    assert sent(outbox) == [3]
    assert (outbox.turn_of(1), outbox.turn_of(3), outbox.turn_of(9)) == (1, 2, None)


def test_an_ending_in_the_middle_of_sending_skips_no_piece() -> None:
    outbox = filled(0)
    first = outbox.next()
    assert first is not None and first.seq == 0
    outbox.ended(0)
    assert sent(outbox) == [1, 2]


def test_an_ack_of_what_was_never_said_forgets_nothing_that_comes_later() -> None:
    outbox = filled(0)
    outbox.ack(1000)
    outbox.push(b"gh", is_final=False, turn=1)
    assert outbox.resume() == 1 and sent(outbox) == [3]


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 48_000])
def test_a_tone_is_the_same_tone_at_another_rate(rate: int) -> None:
    made = [math.sin(2 * math.pi * 440 * at / rate) for at in range(rate)]
    found = array.array("h", pcm16(made, rate))
    assert abs(len(found) - 16_000) <= 1
    crossings = sum(1 for a, b in itertools.pairwise(found) if a < 0 <= b)
    assert abs(crossings - 440) <= 2
    assert max(found) > 30_000


def test_samples_beyond_the_range_are_cut_and_wrong_ones_refused() -> None:
    assert array.array("h", pcm16([2.0, -2.0, 0.5])).tolist() == [32767, -32768, 16384]
    assert array.array("h", pcm16([40_000, -40_000, 7])).tolist() == [32767, -32768, 7]
    assert pcm16(b"") == b"" and pcm16([]) == b""
    with pytest.raises(ValueError, match="two bytes"):
        pcm16(b"\0")
    with pytest.raises(ValueError, match="channel"):
        pcm16([[1, 2]])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rate"):
        resampled([1.0], 10)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_wav_files_of_every_width_are_read(tmp_path: Path, width: int) -> None:
    path = tmp_path / "a.wav"
    values = [0, 64, -64]
    data = b"".join(
        bytes([value + 128]) if width == 1 else (value << (8 * (width - 1))).to_bytes(width, "little", signed=True)
        for value in values
    )
    with wave.open(str(path), "wb") as file:
        file.setparams((1, width, 16000, 0, "NONE", ""))
        file.writeframes(data)
    assert array.array("h", read_wav(path)).tolist() == [value * 256 for value in values]


def test_what_is_no_wav_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"RIFF nonsense")
    with pytest.raises(ValueError, match=r"a\.wav: not a WAV file"):
        read_wav(path)


def test_speech_is_cut_into_pieces_of_100_ms_and_framed() -> None:
    assert [len(piece) for piece in pieces(bytes(7000))] == [3200, 3200, 600]
    assert wire.audio_frame(1, b"ab", is_final=False) == b"\x01\0\x01\0\0\0\0\0\0\0\0\0ab"
    assert wire.audio_frame(2, b"", is_final=True) == b"\x02\0\x02\0\0\0\0\0\0\0"


@pytest.mark.parametrize("url", ["ws://u:secret@h", "http://h/?token=secret", "ftp://h", "127.0.0.1:5010"])
def test_an_address_with_a_secret_or_without_sense_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url") as refused:
        Session("en", "es", url=url)
    assert "secret" not in str(refused.value)


def test_addresses_lead_to_the_session_socket() -> None:
    assert session_url("https://h:1/base/") == "wss://h:1/base/ws/session"
    assert session_url("ws://h/ws/session") == "ws://h/ws/session"


def test_what_people_said_is_in_no_repr() -> None:
    message = {"type": "translation_result", "text_asr": "private", "text_translated": "privado"}
    assert "priva" not in repr(wire.translation_of(message, 0, 0))
