"""Recognition, and the way of a job through all stages, with the real engines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from lingua_node import Job, JobFailed, MissingModel, wire
from sentences import SENTENCES, spoken, word_errors, words
from sound import assert_like_speech
from speech_node.asr import Moonshine
from speech_node.audio import RATE, decode, encode
from speech_node.languages import base, declared, served
from speech_node.nmt import Apertium
from speech_node.repair import Rules
from speech_node.tts import Espeak
from speech_node.worker import SpeechWorker


@pytest.fixture(scope="module")
def recogniser() -> Iterator[Moonshine]:
    yield Moonshine(2)


# Recognition


async def test_english_is_recognised(recogniser: Moonshine) -> None:
    said = [text for text, _ in SENTENCES[:4]]
    heard = [await recogniser.recognise(spoken(text), None) for text in said]
    errors = sum(word_errors(one, other) for one, other in zip(said, heard, strict=True))
    assert errors / sum(len(words(text)) for text in said) <= 0.25, heard


async def test_a_human_voice_is_recognised(recogniser: Moonshine) -> None:
    """A recording that comes with the recogniser."""
    from moonshine_voice import get_assets_path

    recording = Path(str(get_assets_path())) / "two_cities.wav"
    samples = decode(recording.read_bytes(), "wav", RATE)[: 12 * RATE]
    heard = words(await recogniser.recognise(samples, None))
    said = "it was the best of times it was the worst of times it was the age of wisdom"
    assert {"best", "worst", "times", "wisdom"} <= set(heard), heard
    assert word_errors(said, " ".join(heard[: len(said.split())])) <= 3


async def test_partials_grow_and_the_end_is_that_of_the_whole(recogniser: Moonshine) -> None:
    samples = spoken(SENTENCES[1][0])
    partials: list[str] = []
    whole = await recogniser.recognise(samples, None)
    # Its detection of voices remembers a little of what it heard before, so a word may differ.
    assert word_errors(whole, await recogniser.recognise(samples, partials.append)) <= 2
    assert 1 <= len(partials) <= 3
    assert len(partials[0]) < len(whole)


async def test_silence_and_noise_are_no_words(recogniser: Moonshine) -> None:
    noise = np.random.default_rng(1).normal(0, 0.02, 2 * RATE).astype(np.float32)
    for nothing in (np.zeros(2 * RATE, np.float32), noise, np.zeros(0, np.float32)):
        assert await recogniser.recognise(nothing, None) == ""


async def test_recognisers_do_not_mix_up_what_they_hear_at_once(recogniser: Moonshine) -> None:
    said = [SENTENCES[index][0] for index in (3, 4, 10, 11)]
    alone = [await recogniser.recognise(spoken(text), None) for text in said]
    together = await asyncio.gather(*(recogniser.recognise(spoken(text), None) for text in said))
    for one, other in zip(alone, together, strict=True):
        assert word_errors(one, other) <= 2, (one, other)


# What is served, and the way of a job


def test_only_what_works_from_end_to_end_is_declared() -> None:
    pairs = [("en", "es"), ("es", "en"), ("en", "xx")]
    assert served(["en"], pairs, ["es", "en"], text_input=False) == [("en", "es")]
    assert served(["en"], pairs, ["es", "en"], text_input=True) == [("en", "es"), ("es", "en")]
    said = declared([("en", "es")])
    assert (said.asr, said.semantic, said.tts, said.nmt_pairs) == (["en"], ["en"], ["es"], [("en", "es")])
    assert [base("en-US"), base("es"), base("ZH-hant")] == ["en", "es", "zh"]


@pytest_asyncio.fixture
async def worker(recogniser: Moonshine, apertium: Apertium, rules: Rules) -> SpeechWorker:
    return SpeechWorker(recogniser, rules, apertium, Espeak())


def job(audio: bytes = b"\0\0", **more: Any) -> Job:
    fields = {"job_id": "j", "src_lang": "en", "tgt_lang": "es", "audio_format": "pcm16", "sample_rate": RATE}
    return wire.job_of({**fields, **more}, audio)


async def test_a_job_goes_through_all_stages(worker: SpeechWorker) -> None:
    audio, _ = encode(spoken(SENTENCES[10][0]), "pcm16")
    result = await worker.handle(job(audio, padding_ms=280))
    assert word_errors(SENTENCES[10][0], result.text_asr) <= 2, result.text_asr
    assert {"mesa", "cocina"} <= set(words(result.text_translated)), result.text_translated
    assert_like_speech(decode(result.tts_audio, result.tts_format, RATE))
    assert result.service_timings is not None
    stages = {"decode_ms", "asr_ms", "semantic_ms", "nmt_ms", "tts_ms", "encode_ms", "total_ms"}
    assert set(result.service_timings) == stages
    total = result.service_timings["total_ms"]
    assert 0 < sum(result.service_timings.values()) - total <= total + 1, "the stages are parts of the whole"


async def test_steps_that_are_not_wanted_are_left_out(worker: SpeechWorker) -> None:
    audio, _ = encode(spoken(SENTENCES[3][0]), "pcm16")
    result = await worker.handle(job(audio, pipeline={"use_tts": False, "use_semantic": False}))
    assert result.text_translated and result.tts_audio == b""
    assert result.service_timings is not None
    assert set(result.service_timings) == {"decode_ms", "asr_ms", "nmt_ms", "total_ms"}
    heard_only = await worker.handle(job(audio, pipeline={"use_nmt": False}))
    assert (heard_only.text_translated, heard_only.tts_audio) == ("", b"")


async def test_a_text_is_translated_without_recognition(worker: SpeechWorker) -> None:
    pipeline = {"use_asr": False, "text": "el libro está en la mesa"}
    result = await worker.handle(job(src_lang="es", tgt_lang="en", pipeline=pipeline))
    assert (result.text_asr, result.text_translated) == ("El libro está en la mesa.", "The book is in the table.")
    assert_like_speech(decode(result.tts_audio, result.tts_format, RATE))


async def test_jobs_that_cannot_be_done_say_why(worker: SpeechWorker) -> None:
    with pytest.raises(MissingModel) as missing:
        await worker.handle(job(src_lang="es", tgt_lang="en"))
    assert missing.value.model_id == "asr-es"
    with pytest.raises(MissingModel) as missing:
        await worker.handle(job(tgt_lang="zh", pipeline={"use_asr": False, "text": "hello"}))
    assert missing.value.model_id == "nmt-en-zh"
    for pipeline, code in (({"use_asr": False}, "NO_TEXT"), ({"use_asr": False, "text": "x" * 4001}, "TEXT_TOO_LONG")):
        with pytest.raises(JobFailed) as failed:
            await worker.handle(job(pipeline=pipeline))
        assert failed.value.code == code


async def test_silence_ends_a_job_without_a_translation(worker: SpeechWorker) -> None:
    result = await worker.handle(job(bytes(2 * RATE)))
    assert result.extra == {"reason": "ASR_EMPTY"}
