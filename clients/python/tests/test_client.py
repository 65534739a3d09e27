"""The app client: sessions with a real scheduler."""

from __future__ import annotations

import array
import asyncio
import logging
import math
import os
import re
import subprocess
import sys
import wave
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from conftest import SPANISH, Start
from lingua_client import Missing, Session, SessionError, Translation
from lingua_node import Job, Node, Result
from proxy import Proxy
from scheduler import Scheduler, until
from test_tokens import Gated, gated, serving

__all__ = ["gated"]

README = Path(__file__).resolve().parents[1] / "README.md"


def tone(seconds: float, number: int = 0) -> array.array[int]:
    """A sound that is told from others by its first sample."""
    samples = array.array("h", (round(8000 * math.sin(at / 20)) for at in range(int(16000 * seconds))))
    samples[0] = number
    return samples


def write_wav(path: Path, samples: array.array[int], rate: int = 16000, channels: int = 1) -> None:
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(samples.tobytes())


async def numbered(job: Job) -> Result:
    """Says which sound it heard and how much of it; those with higher numbers sooner."""
    number = array.array("h", job.audio[:2])[0]
    await asyncio.sleep(min(0.3, max(0.0, 0.3 - number / 20)))
    return Result(text_asr=f"{number}", text_translated=f"{len(job.audio)}", tts_audio=b"\1\2", tts_format="pcm16")


async def test_the_example_of_the_readme_works_as_it_is_printed(
    scheduler: Scheduler, start: Start, tmp_path: Path
) -> None:
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (example,) = [text for text in examples if "lingua_client" in text]
    assert len([line for line in example.splitlines() if line.strip()]) <= 15
    await start(numbered)
    script, sound = tmp_path / "app.py", tmp_path / "hello.wav"
    script.write_text(example)
    write_wav(sound, tone(1.0, 7))
    environment = {**os.environ, "LINGUA_URL": scheduler.url}
    ran = await asyncio.to_thread(
        lambda: subprocess.run(
            [sys.executable, str(script), str(sound)], env=environment, capture_output=True, text=True, timeout=60
        )
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "7 -> 32000\n", "")


async def test_files_arrays_and_bytes_arrive_sample_by_sample(
    scheduler: Scheduler, start: Start, tmp_path: Path
) -> None:
    heard: list[bytes] = []

    async def handle(job: Job) -> Result:
        heard.append(job.audio)
        return Result(text_translated="x")

    await start(handle)
    samples = tone(0.45, 3)
    write_wav(tmp_path / "mono.wav", samples)
    both = array.array("h", (sample for sample in samples for _ in range(2)))
    write_wav(tmp_path / "stereo.wav", both, channels=2)
    async with Session("en", "es", url=scheduler.url) as session:
        for source in (tmp_path / "mono.wav", str(tmp_path / "stereo.wav"), samples, list(samples), samples.tobytes()):
            (ending,) = await session.translate(source)
            assert isinstance(ending, Translation) and ending.text == "x"
        await session.translate([sample / 32767 for sample in samples])
        await session.translate(both, rate=32000)
    assert heard[:6] == [samples.tobytes()] * 6
    assert abs(len(heard[6]) - len(samples.tobytes())) <= 2


async def test_endings_are_told_once_and_in_order(scheduler: Scheduler, start: Start) -> None:
    await start(numbered, slots=8)
    async with Session("en", "es", url=scheduler.url) as session:
        turns = [await session.speak(tone(0.3, number)) for number in range(5)]
        endings = session.endings()
        told = [await anext(endings) for _ in range(5)]
    assert turns == [0, 1, 2, 3, 4] == [ending.turn for ending in told] == [ending.index for ending in told]
    assert [ending.heard for ending in told if isinstance(ending, Translation)] == ["0", "1", "2", "3", "4"]
    assert isinstance(told[0], Translation) and (told[0].audio, told[0].audio_format) == (b"\1\2", "pcm16")


async def test_a_session_goes_on_after_its_connection_broke(scheduler: Scheduler, start: Start) -> None:
    await start(numbered, slots=8)
    async with Proxy(scheduler.port) as proxy, Session("en", "es", url=proxy.url) as session:
        first = session.session_id
        # In the middle of a sentence, and with one that has no ending yet.
        await session.speak(tone(0.3, 1))
        await session.say(tone(0.5, 2).tobytes())
        proxy.cut()
        await session.say(bytes(16000))
        session.end()
        await session.speak(tone(0.3, 3))
        endings = session.endings()
        told = [await asyncio.wait_for(anext(endings), 30) for _ in range(3)]
        assert (session.session_id, session.connections) == (first, 2), "the same session"
    assert [(ending.heard, ending.text) for ending in told if isinstance(ending, Translation)] == [
        ("1", "9600"),
        ("2", "32000"),
        ("3", "9600"),
    ]


async def test_what_a_new_session_does_not_know_is_said_again(scheduler: Scheduler, start: Start) -> None:
    async def never(job: Job) -> Result:
        await asyncio.sleep(60)
        return Result()

    lost = await start(never, node_id="first")
    async with Proxy(scheduler.port) as proxy, Session("en", "es", url=proxy.url) as session:
        first = session.session_id
        await session.speak(tone(0.3, 5))
        await until(lambda: lost.stats.running == 1, "the node works on it")
        # It comes back when there is a node again.
        proxy.refuses = True
        await asyncio.to_thread(scheduler.end)
        lost.stop()
        await asyncio.to_thread(scheduler.start)
        await start(numbered, node_id="second")
        proxy.refuses = False
        ending = await asyncio.wait_for(anext(session.endings()), 30)
        assert isinstance(ending, Translation) and (ending.turn, ending.heard, ending.text) == (0, "5", "9600")
        assert session.session_id != first


async def test_long_speech_has_several_endings_in_one_turn(scheduler: Scheduler, start: Start) -> None:
    await start(numbered, slots=8)
    async with Session("en", "es", url=scheduler.url, options={"max_utterance_ms": 1000}) as session:
        told = await session.translate(tone(3.5, 1))
        assert [ending.index for ending in told] == [0, 1, 2, 3]
        parts = [ending for ending in told if isinstance(ending, Translation)]
        assert [ending.part for ending in parts] == [0, 1, 2, 3] and sum(int(e.text) for e in parts) == 3.5 * 32000
        (after,) = await session.translate(tone(0.2, 1))
        assert after.turn == 1


async def test_a_live_source_may_fall_silent(scheduler: Scheduler, start: Start) -> None:
    node = await start(numbered)

    async def microphone() -> AsyncIterator[bytes]:
        yield tone(0.3, 1).tobytes()
        # The pause ends the utterance, and it has its ending before the turn is over.
        await until(lambda: node.stats.done == 1 and node.stats.unconfirmed == 0, "the pause ended the utterance")

    async with Session("en", "es", url=scheduler.url, options={"pause_ms": 200}) as session:
        told = await asyncio.wait_for(session.translate(microphone()), 30)
        assert [ending.index for ending in told] == [0]


async def test_words_on_the_way_are_heard(scheduler: Scheduler, start: Start) -> None:
    async def handle(job: Job) -> Result:
        job.partial("good mor")
        return Result(text_asr="good morning", text_translated="buenos días")

    await start(handle)
    words: list[tuple[int, str]] = []
    async with Session("en", "es", url=scheduler.url, on_partial=lambda *told: words.append(told)) as session:
        await session.translate(tone(0.3))
    assert words == [(0, "good mor")]


async def test_without_a_node_the_ending_says_why(scheduler: Scheduler) -> None:
    async with Session("en", "es", url=scheduler.url) as session:
        (ending,) = await session.translate(tone(0.3))
    assert isinstance(ending, Missing) and (ending.reason, ending.code) == ("no_capable_node", "NO_CAPABLE_NODE")


async def test_what_cannot_be_is_refused_and_ends_the_session(scheduler: Scheduler) -> None:
    with pytest.raises(SessionError) as refused:
        await Session("nonsense-that-is-no-language", "es", url=scheduler.url).open()
    assert refused.value.code in ("INVALID_LANGUAGE", "INVALID_MESSAGE")
    async with Session("en", "es", url=scheduler.url) as session:
        with pytest.raises(ValueError, match="nothing was said"):
            await session.speak(b"")
    assert [ending async for ending in session.endings()] == [], "it is closed"
    with pytest.raises(SessionError):
        await session.speak(tone(0.2))


async def test_tokens_are_asked_for_anew_and_stand_in_no_log(gated: Gated, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = gated.mint("session", "app", "--tenant", "acme", key="wrong")
    with pytest.raises(SessionError) as refused:
        await Session("en", "es", url=gated.url, token=wrong).open()
    assert refused.value.code == "UNAUTHORIZED" and wrong not in str(refused.value)
    good = gated.mint("session", "app", "--tenant", "acme")
    tokens = iter([wrong, good])

    async def newest() -> str:
        return next(tokens)

    node = Node(numbered, SPANISH, url=gated.url, node_id="gpu-1", token=gated.mint("node", "gpu-1"))
    async with serving(node), Session("en", "es", url=gated.url, token=newest) as session:
        (ending,) = await session.translate(tone(0.3, 4))
    assert isinstance(ending, Translation) and ending.heard == "4"
    said = [record.getMessage() for record in caplog.records if record.name.startswith("lingua")]
    assert said and not any(wrong in line or good in line for line in said)


async def test_several_targets_have_an_ending_each_and_a_resume_loses_none(scheduler: Scheduler, start: Start) -> None:
    async def handle(job: Job) -> Result:
        await asyncio.sleep(0.1)
        return Result(text_asr="hello", text_translated=f"{job.tgt_lang} {job.utterance_index}")

    await start(handle)
    async with Proxy(scheduler.port) as proxy, Session("en", ["es", "en", "fr"], url=proxy.url) as session:
        for turn in range(3):
            found = await session.translate(tone(0.2, turn))
            told = sorted((ending.tgt_lang, type(ending).__name__, ending.index, ending.turn) for ending in found)
            assert told == [
                ("en", "Translation", turn, turn),
                ("es", "Translation", turn, turn),
                ("fr", "Missing", turn, turn),
            ]
            assert {ending.src_lang for ending in found if isinstance(ending, Translation)} == {"en"}
            proxy.cut()
        assert session.connections >= 3
