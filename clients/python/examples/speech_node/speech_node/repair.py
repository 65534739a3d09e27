"""Semantic repair: what was heard becomes what was meant, as far as rules and a dictionary can tell.

A better engine has the same method as :class:`Rules` and takes its place in the worker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .programs import Conversation, ProgramFailed

DICTIONARIES = {"en": "en_US", "es": "es_ES", "fr": "fr_FR", "de": "de_DE", "pt": "pt_PT", "ca": "ca_ES", "it": "it_IT"}
PLACES = (Path("/usr/share/hunspell"), Path("/usr/share/myspell/dicts"))

MAX_LOOKUPS = 200
"""Words of one text that are looked up."""

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_HELPERS = "is|are|was|were|am|do|does|did|can|could|will|would|shall|should|may|might|have|has|had"
_PERSONS = "i|you|he|she|it|we|they"
_QUESTION = re.compile(
    r"(?i)^(?:"
    # Where is …
    rf"(?:who|whom|where|when|why)\s+(?:{_HELPERS})"
    # How much does …, what time can …; but "what I have is" does not ask.
    rf"|(?:what|which|whose|how)(?:\s+(?!(?:{_PERSONS})\b)\w+)?\s+(?:{_HELPERS})"
    # Is the …, could you …
    r"|(?:is|are|was|were|am|can|could|will|would|shall|should|may|does|did|has|had)"
    rf"\s+(?:{_PERSONS}|there|this|that|these|those|the|my|your|his|her|our|their|any\w*|some\w*)"
    # "Do it now" and "have a seat" do not ask.
    r"|(?:do|have)\s+(?:i|you|we|they)"
    r")\b"
)
_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
_UNITS = {word: value for value, word in enumerate(_SMALL.split())}
_ROUND = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {word: 10 * value for value, word in enumerate(_ROUND.split(), 2)}


@dataclass(frozen=True)
class Repaired:
    """A text, and which kinds of repair it took."""

    text: str
    changes: tuple[str, ...]


class Repairer(Protocol):
    """What the worker needs of a repairer. ``context`` is what was said before; it may be empty."""

    async def repair(self, text: str, lang: str, context: str) -> Repaired:
        """The text as it was meant."""


class Rules:
    """Spelling from a dictionary; numbers, capitals and punctuation by rule."""

    def __init__(self) -> None:
        self._dictionaries: dict[str, Conversation] = {}

    def has_dictionary(self, lang: str) -> bool:
        """Whether words of the language can be looked up."""
        name = DICTIONARIES.get(lang)
        return name is not None and any((place / f"{name}.dic").exists() for place in PLACES)

    async def repair(self, text: str, lang: str, context: str) -> Repaired:
        """The text as it was meant."""
        changes: list[str] = []
        steps = [("spacing", spacing(text)), ("repetition", repetition(spacing(text)))]
        before = text
        for name, after in steps:
            if after != before:
                changes.append(name)
            before = after
        spelled = await self.spelling(before, lang, context)
        if spelled != before:
            changes.append("spelling")
        for name, rule in (("numbers", numbers), ("casing", casing), ("punctuation", punctuation)):
            after = rule(spelled, lang)
            if after != spelled:
                changes.append(name)
            spelled = after
        return Repaired(spelled, tuple(changes))

    async def spelling(self, text: str, lang: str, context: str) -> str:
        """Words that no dictionary knows become the nearest one that it does. Names and what was said before stay."""
        if not self.has_dictionary(lang):
            return text
        known_before = {word.lower() for word in _WORD.findall(context)}
        said = list(_WORD.finditer(text))[:MAX_LOOKUPS]
        pieces, at = [], 0
        for index, match in enumerate(said):
            word = match.group()
            is_name = word[0].isupper() and index > 0
            if is_name or len(word) < 4 or word.lower() in known_before:
                continue
            better = await self._look_up(word, lang)
            if better is not None:
                pieces += [text[at : match.start()], better]
                at = match.end()
        return "".join([*pieces, text[at:]])

    async def _look_up(self, word: str, lang: str) -> str | None:
        """A correction, if there is one that is near enough."""
        speller = self._dictionaries.get(lang)
        if speller is None:
            command = ["hunspell", "-a", "-i", "UTF-8", "-d", DICTIONARIES[lang]]
            speller = self._dictionaries[lang] = Conversation(command, b"\n\n", greets=True)
        try:
            # The caret says that a word follows and not a command.
            answer = (await speller.ask(f"^{word}\n".encode())).decode(errors="replace")
        except ProgramFailed:
            return None  # A repair that does not work leaves the text as it was.
        return nearest(word, answer)

    async def close(self) -> None:
        """Ends the dictionaries."""
        for speller in self._dictionaries.values():
            await speller.close()


def nearest(word: str, answer: str) -> str | None:
    """The suggestion in an answer of hunspell that is surely meant: one letter off, or two in a long word."""
    if not answer.startswith("&"):
        return None
    most = 1 if len(word) < 8 else 2
    offered = [suggestion.strip() for suggestion in answer.partition(":")[2].split(",")]
    near = [
        better for better in offered if re.fullmatch(_WORD, better) and distance(word.lower(), better.lower()) <= most
    ]
    if not near:
        return None
    # Rather a letter doubled or swapped than another letter, and rather one more than one less.
    best = min(near, key=lambda better: (len(set(word.lower()) ^ set(better.lower())), -len(better)))
    return best.capitalize() if word[0].isupper() else best


def distance(one: str, other: str) -> int:
    """Letters to change, add, drop or swap with a neighbour."""
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, against in enumerate(other, 1):
            best = min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                best = min(best, rows[i - 2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def spacing(text: str) -> str:
    """One space between words, none before a mark."""
    return re.sub(r"\s+([.,;:!?])", r"\1", " ".join(text.split()))


def repetition(text: str) -> str:
    """A word said three times or more in a row is the recogniser's stutter, not the speaker's wish."""
    return re.sub(r"(?i)\b(\w+)(?:[,.]?\s+\1\b){2,}", r"\1", text)


def numbers(text: str, lang: str) -> str:
    """Spoken English numbers from 20 to 999 999 as digits; small ones read better as words."""
    if lang != "en":
        return text
    small = "|".join([*_UNITS, *_TENS])
    run = re.compile(rf"(?i)\b(?:{small})(?:(?:\s+and)?[\s-]+(?:{small}|hundred|thousand))*\b")

    def digits(match: re.Match[str]) -> str:
        value = _value(re.split(r"[\s-]+", match.group().lower()))
        return match.group() if value is None or value < 20 else str(value)

    return run.sub(digits, text)


def _value(words: list[str]) -> int | None:
    """The number that the words are, if they are one number and not several."""
    total, group, allowed = 0, 0, 1000
    for word in words:
        if word == "and":
            continue
        if word == "thousand":
            if total or not group:
                return None
            total, group, allowed = group * 1000, 0, 1000
        elif word == "hundred":
            if not 0 < group < 10:
                return None
            group, allowed = group * 100, 100
        elif word in _TENS and allowed >= 100:
            group, allowed = group + _TENS[word], 10
        elif word in _UNITS and _UNITS[word] < allowed:
            group, allowed = group + _UNITS[word], 0
        else:
            return None
    return total + group


def casing(text: str, lang: str) -> str:
    """Sentences begin with a capital, and in English so does the first person."""
    if text.isupper() and len(text) > 4:
        text = text.lower()
    if lang == "en":
        text = re.sub(r"\bi(?=\b(?!\.[a-z]))", "I", text)
    return re.sub(r"(^|[.!?]\s+)(\w)", lambda match: match.group(1) + match.group(2).upper(), text)


def punctuation(text: str, lang: str) -> str:
    """A sentence has an end, and one that asks ends as a question."""
    text = text.rstrip(" ,;:-…")
    if not text:
        return text
    last = re.split(r"(?<=[.!?])\s+", text)[-1]
    asks = lang == "en" and _QUESTION.match(last) is not None and len(last.split()) >= 3
    if text[-1] not in ".!?":
        return text + ("?" if asks else ".")
    return text
