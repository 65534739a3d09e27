"""The way of a job: decode, recognise, repair, translate, speak, encode."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import numpy as np

from lingua_node import Job, JobFailed, MissingModel, Result
from lingua_node.threads import run_in_thread

from .asr import Moonshine, Recogniser, silence
from .audio import RATE, decode, encode
from .languages import Pair, base, served
from .nmt import Apertium, Translator
from .programs import ProgramFailed
from .repair import Repairer, Rules
from .tts import Espeak, Speaker

MAX_TEXT = 4_000
"""Characters of a text that is to be translated."""


class Stopwatch:
    """How long each stage took."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.timings: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measures what is done within."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.timings[f"{name}_ms"] = round((time.monotonic() - began) * 1000, 1)

    def all(self) -> dict[str, float]:
        """Every stage, and the whole."""
        return {**self.timings, "total_ms": round((time.monotonic() - self._began) * 1000, 1)}


class SpeechWorker:
    """The engines, one behind the other. Each can be replaced by another with the same methods."""

    def __init__(self, recogniser: Recogniser, repairer: Repairer, translator: Translator, speaker: Speaker) -> None:
        self.recogniser = recogniser
        self.repairer = repairer
        self.translator = translator
        self.speaker = speaker

    @classmethod
    def with_installed_engines(cls, slots: int) -> SpeechWorker:
        """The engines of this machine. Takes a second: models are loaded."""
        return cls(Moonshine(slots), Rules(), Apertium(), Espeak())

    def pairs(self, *, text_input: bool = False) -> list[Pair]:
        """What it serves."""
        heard, pairs = self.recogniser.languages, self.translator.pairs
        return served(heard, pairs, self.speaker.languages, text_input=text_input)

    async def handle(self, job: Job) -> Result:
        """One utterance."""
        watch = Stopwatch()
        src, tgt = base(job.src_lang), base(job.tgt_lang)
        try:
            return await self._translate(job, src, tgt, watch)
        except ProgramFailed as error:
            raise JobFailed("ENGINE_FAILED", str(error)) from error

    async def _translate(self, job: Job, src: str, tgt: str, watch: Stopwatch) -> Result:
        if job.wants("asr"):
            heard = await self._recognise(job, src, watch)
        else:
            heard = given_text(job)
        if not heard:
            return Result.nothing_said(service_timings=watch.all())
        extra: dict[str, object] = {}
        if job.wants("semantic"):
            with watch.stage("semantic"):
                context = job.message.get("context_text")
                repaired = await self.repairer.repair(heard, src, context if isinstance(context, str) else "")
            heard, extra["repairs"] = repaired.text, list(repaired.changes)
        if job.wants("asr"):
            job.partial(heard, is_final=True)
        translated = await self._into(job, heard, src, tgt, watch)
        audio, form = b"", ""
        if job.wants("tts") and translated:
            audio, form = await self._speak(job, translated, tgt, watch)
            extra["tts_sample_rate"] = RATE
        return Result(
            text_asr=heard,
            text_translated=translated,
            tts_audio=audio,
            tts_format=form,
            extra=extra,
            service_timings=watch.all(),
        )

    async def _recognise(self, job: Job, src: str, watch: Stopwatch) -> str:
        if src not in self.recogniser.languages:
            raise MissingModel(f"asr-{src}")
        with watch.stage("decode"):
            samples = await run_in_thread(lambda: decode(job.audio, job.audio_format, job.sample_rate))
        padding = job.message.get("padding_ms")
        if isinstance(padding, int):
            samples = np.concatenate([samples, silence(padding)])
        job.progress("asr")
        with watch.stage("asr"):
            return await self.recogniser.recognise(samples, job.partial if job.wants_partials else None)

    async def _into(self, job: Job, text: str, src: str, tgt: str, watch: Stopwatch) -> str:
        if src == tgt:
            return text
        if not job.wants("nmt"):
            return ""
        if (src, tgt) not in self.translator.pairs:
            raise MissingModel(f"nmt-{src}-{tgt}")
        job.progress("nmt")
        with watch.stage("nmt"):
            return await self.translator.translate(text, src, tgt)

    async def _speak(self, job: Job, text: str, tgt: str, watch: Stopwatch) -> tuple[bytes, str]:
        if tgt not in self.speaker.languages:
            raise MissingModel(f"tts-{tgt}")
        job.progress("tts")
        with watch.stage("tts"):
            samples = await self.speaker.speak(text, tgt)
        with watch.stage("encode"):
            return await run_in_thread(lambda: encode(samples, job.audio_format))

    async def close(self) -> None:
        """Ends the programs behind the engines."""
        for engine in (self.repairer, self.translator):
            close = getattr(engine, "close", None)
            if close is not None:
                await close()

    async def check(self) -> None:
        """Takes one sentence through all engines, so that a node which cannot work does not register."""
        samples = await self.speaker.speak("The water in the lake is very cold today.", "en")
        words = await self.recogniser.recognise(samples, None)
        repaired = await self.repairer.repair(words, "en", "")
        for src, tgt in self.pairs():
            translated = await self.translator.translate(repaired.text, src, tgt)
            if not translated or not len(await self.speaker.speak(translated, tgt)):
                raise ProgramFailed(f"{src}->{tgt}: nothing came out")


def given_text(job: Job) -> str:
    """The text of a job without recognition: ``pipeline`` passes through the scheduler, and has it as ``text``."""
    text = job.pipeline.get("text")
    if not isinstance(text, str):
        raise JobFailed("NO_TEXT", "use_asr is false, so pipeline.text must hold the text")
    if len(text) > MAX_TEXT:
        raise JobFailed("TEXT_TOO_LONG", f"pipeline.text has more than {MAX_TEXT} characters")
    return text.strip()
