"""Translation: Apertium, each pair as a pipeline that stays alive and answers up to a null byte."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Protocol

from .programs import Conversation, ProgramFailed

MODES = Path("/usr/share/apertium/modes")

# Apertium has names of three letters where the protocol has two.
_TAGS = {
    "afr": "af", "arg": "an", "ast": "ast", "bel": "be", "bre": "br", "cat": "ca", "cym": "cy", "dan": "da",
    "deu": "de", "eng": "en", "epo": "eo", "eus": "eu", "fra": "fr", "glg": "gl", "hbs": "sh", "ind": "id",
    "isl": "is", "ita": "it", "kaz": "kk", "mkd": "mk", "mlt": "mt", "msa": "ms", "nld": "nl", "nno": "nn",
    "nob": "nb", "oci": "oc", "pol": "pl", "por": "pt", "ron": "ro", "rus": "ru", "slv": "sl", "spa": "es",
    "srd": "sc", "swe": "sv", "tat": "tt", "ukr": "uk",
}  # fmt: skip

_SPECIAL = re.compile(r"([\\\[\]{}^$@<>/])")
_ESCAPED = re.compile(r"\\(.)")
_END = ".[][\n]"
"""What Apertium's own reader puts behind a text, so that the last sentence is seen as ended."""


class Translator(Protocol):
    """What the worker needs of a translator."""

    pairs: list[tuple[str, str]]

    async def translate(self, text: str, src: str, tgt: str) -> str:
        """The text in the other language."""


class Apertium:
    """Every pair that is installed."""

    def __init__(self, modes: Path = MODES) -> None:
        self._modes = installed(modes)
        self._pipelines: dict[tuple[str, str], Conversation] = {}
        self.pairs = sorted(self._modes)

    async def translate(self, text: str, src: str, tgt: str) -> str:
        """The text in the other language; words that it does not know stay as they are."""
        pair = (src, tgt)
        pipeline = self._pipelines.get(pair)
        if pipeline is None:
            pipeline = self._pipelines[pair] = Conversation(command(self._modes[pair]), b"\0")
        question = _SPECIAL.sub(r"\\\1", " ".join(text.replace("\0", " ").split()))
        answer = (await pipeline.ask((question + _END + "\0").encode())).decode(errors="replace")
        return polish(_ESCAPED.sub(r"\1", answer.removesuffix(_END)), tgt, text)

    async def close(self) -> None:
        """Ends all pipelines."""
        for pipeline in self._pipelines.values():
            await pipeline.close()


def installed(modes: Path) -> dict[tuple[str, str], Path]:
    """The pairs that are installed, by the tags of the protocol. Variants such as ``spa-eng_US`` are passed over."""
    found: dict[tuple[str, str], Path] = {}
    for mode in sorted(modes.glob("*.mode")):
        match = re.fullmatch(r"([a-z]{2,3})-([a-z]{2,3})", mode.stem)
        if match is not None:
            src, tgt = (_TAGS.get(code, code) for code in match.groups())
            found.setdefault((src, tgt), mode)
    return found


def command(mode: Path) -> list[str]:
    """The pipeline of a mode, with null bytes passed through. ``-n``: no marks at unknown words."""
    try:
        mode.open().close()  # The program below says nothing of a file that is not there.
        pipeline = subprocess.run(  # noqa: S603
            ["apertium-wblank-mode", "-z", str(mode)],  # noqa: S607
            check=True,
            capture_output=True,
            text=True,
            timeout=10,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise ProgramFailed(f"apertium: {type(error).__name__}") from error
    return ["bash", "-c", pipeline, "apertium", "-n", ""]


def polish(text: str, tgt: str, source: str) -> str:
    """Small things that rules leave behind: spaces, capitals, and the opening marks of Spanish."""
    text = re.sub(r"\s+([.,;:!?])", r"\1", " ".join(text.split()))
    if not has_names(source):
        # A capital within a sentence that was none in the source: "gracias Para".
        text = re.sub(r"(?<=[^\W\d_,] )[^\W\d_](?=[^\W\d_]*\b)", lambda match: match.group().lower(), text)
    sentences = [_sentence(sentence, tgt) for sentence in re.split(r"(?<=[.!?])\s+", text) if sentence]
    return " ".join(sentences)


def has_names(source: str) -> bool:
    """Whether a word within a sentence has a capital, but for the first person."""
    words = re.findall(r"(?<=[^\W\d_,] )[^\W\d_]+", source)
    return any(word[0].isupper() and word != "I" for word in words)


def _sentence(sentence: str, tgt: str) -> str:
    # The generator shouts a first word whose first letter alone was a capital: "EL agua".
    first, _, rest = sentence.partition(" ")
    if rest and len(first) == 2 and first.isupper():
        first = first.capitalize()
    sentence = f"{first} {rest}".strip()
    sentence = sentence[:1].upper() + sentence[1:]
    if tgt == "es":
        for closing, opening in (("?", "¿"), ("!", "¡")):
            if sentence.endswith(closing) and opening not in sentence:
                sentence = opening + sentence
    return sentence
