"""From a speaker through the real scheduler and the real engines back to the speaker."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scheduler import ROOT, Scheduler
from sentences import SENTENCES, spoken, word_errors, words
from session import session
from sound import assert_like_speech
from speech_node.audio import RATE, decode, encode

HERE = Path(__file__).resolve().parents[1]
ENVIRONMENT = {"LINGUA_SPEECH_HOME": str(ROOT / "target" / "speech-node"), **os.environ}


@pytest.fixture(scope="module", autouse=True)
def prepared() -> None:
    subprocess.run([str(HERE / "setup.sh")], check=True, env=ENVIRONMENT)


@contextmanager
def served(log: Path, *arguments: str) -> Iterator[Scheduler]:
    """A scheduler with the speech node, started as people start it."""
    scheduler = Scheduler(log)
    scheduler.start()
    command = [str(HERE / "run.sh"), "--url", scheduler.url, "--node-id", "speech", "--slots", "2", *arguments]
    process = subprocess.Popen(command, env=ENVIRONMENT, text=True, stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + 60
        while scheduler.call("GET", "/api/v1/nodes/speech")[0] != 200:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < end, "the node does not register"
            time.sleep(0.05)
        yield scheduler
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 0, said
        assert "Traceback" not in said and "never retrieved" not in said, said
    finally:
        process.kill()
        process.communicate()
        scheduler.end()


@pytest.fixture(scope="module")
def scheduler(prepared: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduler]:
    with served(tmp_path_factory.mktemp("speech") / "scheduler.log") as scheduler:
        yield scheduler


async def test_twelve_sentences_become_spanish_speech_in_order(
    scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, errors, total, latencies, lacking = [], 0, 0, [], []
    async with session(scheduler.url, "en", "es", enable_streaming_asr=True) as speaker:
        for index, (said, expected) in enumerate(SENTENCES):
            audio, _ = encode(spoken(said), "pcm16")
            await speaker.speak(audio)
            began = time.monotonic()
            ending = await speaker.ending()
            latencies.append(time.monotonic() - began)
            assert (ending["type"], ending["utterance_index"]) == ("translation_result", index), ending
            missing = expected - set(words(ending["text_translated"]))
            lacking += [(word, ending["text_translated"]) for word in missing]
            assert len(missing) < len(expected), f"nothing of it is right: {ending['text_translated']}"
            errors += word_errors(said, ending["text_asr"])
            total += len(words(said))
            assert ending["tts_format"] == "pcm16"
            speech = decode(base64.b64decode(ending["tts_audio"]), "pcm16", RATE)
            seconds, letters = len(speech) / RATE, len(ending["text_translated"])
            assert 0.03 * letters < seconds < 0.2 * letters + 1, (seconds, letters)
            assert_like_speech(speech)
            assert ending["service_timings"]["asr_ms"] > 0
            lines.append(f"  {latencies[-1]:5.2f} s  {ending['text_asr']}  =>  {ending['text_translated']}")
        finals = [partial for partial in speaker.partials if partial["is_final"]]
        assert [partial["utterance_index"] for partial in finals] == list(range(len(SENTENCES)))
        assert len(speaker.partials) > len(finals), "words on the way"
    expected_words = sum(len(expected) for _, expected in SENTENCES)
    right = 1 - len(lacking) / expected_words
    latencies.sort()
    with capsys.disabled():
        print("\n" + "\n".join(lines))
        print(
            f"  word error rate {errors / total:.1%} of {total} words, expected Spanish words {right:.0%} of "
            f"{expected_words}, latency median {latencies[len(latencies) // 2]:.2f} s, longest {latencies[-1]:.2f} s"
        )
    assert errors / total <= 0.25
    assert right >= 0.75, lacking


async def test_opus_is_heard_and_spoken(scheduler: Scheduler) -> None:
    async with session(scheduler.url, "en", "es", codec="opus") as speaker:
        for said, expected in SENTENCES[3:5]:
            audio, _ = encode(spoken(said), "opus")
            await speaker.speak(audio, chunk=500)
            ending = await speaker.ending()
            assert ending["type"] == "translation_result", ending
            assert expected & set(words(ending["text_translated"]))
            assert ending["tts_format"] == "opus"
            assert_like_speech(decode(base64.b64decode(ending["tts_audio"]), "opus", RATE))
        assert speaker.partials == [], "nobody asked for them"


async def test_silence_is_told_as_silence(scheduler: Scheduler) -> None:
    async with session(scheduler.url, "en", "es") as speaker:
        await speaker.speak(bytes(2 * RATE))
        ending = await speaker.ending()
        assert (ending["type"], ending["reason"]) == ("missing_result", "silence_detected")


async def test_spoken_spanish_finds_no_node(scheduler: Scheduler) -> None:
    """There is no recogniser of Spanish, so the node does not say that it could."""
    status, answer = await scheduler.dispatch(src_lang="es", tgt_lang="en")
    assert (status, answer["error"]) == (422, "NO_CAPABLE_NODE")


async def test_written_spanish_is_served_when_the_callers_know(tmp_path: Path) -> None:
    with served(tmp_path / "scheduler.log", "--text-input") as scheduler:
        written = {"use_asr": False, "text": "el agua del lago es muy fría"}
        wish: dict[str, Any] = {"src_lang": "es", "tgt_lang": "en", "options": {"wait_ms": 30000}}
        _, answer = await scheduler.dispatch(pipeline=written, **wish)
        assert answer["job"]["state"] == "DONE", answer
        result = answer["job"]["result"]
        assert {"water", "lake", "cold"} <= set(words(result["text_translated"]))
        assert_like_speech(decode(base64.b64decode(result["tts_audio"]), result["tts_format"], RATE))
        _, answer = await scheduler.dispatch(session_id="spoken", **wish)
        assert "MODEL_NOT_AVAILABLE" in str(answer), answer


async def test_many_speak_at_once(scheduler: Scheduler) -> None:

    async def one(index: int) -> None:
        said, expected = SENTENCES[index]
        async with session(scheduler.url, "en", "es") as speaker:
            audio, _ = encode(spoken(said), "pcm16")
            for attempt in range(10):
                await speaker.speak(audio)
                ending = await speaker.ending()
                if ending["type"] == "translation_result":
                    break
                # Two slots and four speakers: some have to wait.
                assert ending["reason"] == "all_nodes_busy" and attempt < 9, ending
            assert expected & set(words(ending["text_translated"])), ending["text_translated"]

    await asyncio.gather(*(one(index) for index in (3, 4, 8, 10)))


def test_a_second_preparation_is_done_at_once() -> None:
    began = time.monotonic()
    done = subprocess.run([str(HERE / "setup.sh")], check=True, env=ENVIRONMENT, capture_output=True, text=True)
    assert "ready" in done.stdout
    assert time.monotonic() - began < 10


def test_a_node_that_was_not_prepared_says_so(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "LINGUA_SPEECH_HOME": str(tmp_path)}
    done = subprocess.run([str(HERE / "run.sh")], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "setup.sh" in done.stderr


@pytest.mark.parametrize("wrong", [["--slots", "0"], ["--url", "nonsense"], ["--slots", "x"]])
def test_a_wrong_call_is_told(wrong: list[str]) -> None:
    done = subprocess.run([str(HERE / "run.sh"), *wrong], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr
