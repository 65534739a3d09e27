"""What of all that the engines can do is served."""

from __future__ import annotations

from collections.abc import Iterable

from lingua_node import Languages

Pair = tuple[str, str]


def base(tag: str) -> str:
    """The language of a tag: ``en`` of ``en-US``."""
    return tag.partition("-")[0].lower()


def served(heard: Iterable[str], pairs: Iterable[Pair], spoken: Iterable[str], *, text_input: bool) -> list[Pair]:
    """Only what works from end to end: pairs whose source is recognised and whose target is spoken.

    The scheduler gives every job to a node that recognises its source, whatever the job says of its steps. A
    direction that works only from text is therefore left out, unless ``text_input`` says that the callers know.
    """
    recognised, voices = set(heard), set(spoken)
    return sorted((src, tgt) for src, tgt in pairs if tgt in voices and (src in recognised or text_input))


def declared(pairs: Iterable[Pair]) -> Languages:
    """These pairs and nothing else, as a node says it."""
    listed = sorted(pairs)
    sources, targets = sorted({src for src, _ in listed}), sorted({tgt for _, tgt in listed})
    return Languages(asr=sources, semantic=sources, nmt_pairs=listed, tts=targets)
