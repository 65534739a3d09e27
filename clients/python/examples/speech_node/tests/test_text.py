"""What is done with words: repair and translation, with the real dictionary and the real pipelines."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from sentences import words
from speech_node import programs
from speech_node.nmt import Apertium, command, installed
from speech_node.programs import Conversation, ProgramFailed
from speech_node.repair import Rules, casing, distance, nearest, numbers, punctuation, repetition, spacing


@pytest.mark.parametrize(
    ("heard", "meant"),
    [
        ("where is the nearest hospital", "Where is the nearest hospital?"),
        ("how much does it cost", "How much does it cost?"),
        ("do it now", "Do it now."),
        ("when i was young i lived here", "When I was young I lived here."),
        ("i recieve twenty five leters every day", "I receive 25 letters every day."),
        ("the  water is cold , very cold", "The water is cold, very cold."),
        ("I live in Zorkbat.", "I live in Zorkbat."),
        ("no no no no stop", "No stop."),
        ("we go. then we rest", "We go. Then we rest."),
    ],
)
async def test_english_is_repaired(rules: Rules, heard: str, meant: str) -> None:
    assert (await rules.repair(heard, "en", "")).text == meant


async def test_a_repair_names_what_it_changed(rules: Rules) -> None:
    repaired = await rules.repair("i recieve forty two leters", "en", "")
    assert repaired.changes == ("spelling", "numbers", "casing", "punctuation")
    assert (await rules.repair("All is well.", "en", "")).changes == ()


async def test_a_word_that_was_said_before_is_no_mistake(rules: Rules) -> None:
    assert "leters" in (await rules.repair("my leters", "en", "leters is his name")).text


async def test_a_language_without_a_dictionary_is_repaired_by_rules_alone(rules: Rules) -> None:
    assert (await rules.repair("hola  qwxzy", "xx", "")).text == "Hola qwxzy."


def test_numbers_are_read_as_they_are_said() -> None:
    said = {
        "twenty five": "25",
        "three hundred and forty two": "342",
        "two thousand nineteen": "2019",
        "one hundred thousand": "100000",
        "five": "five",
        "one two three": "one two three",
        "twenty twenty": "twenty twenty",
        "ninety-nine": "99",
    }
    assert {text: numbers(text, "en") for text in said} == said
    assert numbers("twenty five", "es") == "twenty five"


def test_small_repairs_by_rule() -> None:
    assert spacing("  a  b , c ") == "a b, c"
    assert repetition("the the the end") == "the end"
    assert repetition("very very good") == "very very good"
    assert casing("i am HERE. ok", "en") == "I am HERE. Ok"
    assert casing("GOOD MORNING", "en") == "Good morning"
    assert punctuation("", "en") == ""
    assert [distance("recieve", "receive"), distance("abc", "abc"), distance("", "ab")] == [1, 0, 2]
    assert nearest("hous", "& hous 3 1: hoys, hos, house") == "house"
    assert nearest("hous", "*") is None
    assert nearest("xqzt", "& xqzt 1 1: something") is None


def test_installed_pairs_have_the_names_of_the_protocol(tmp_path: Path) -> None:
    for name in ("eng-spa", "spa-eng_US", "en-ca", "eng-spa-tagger", "fra-cat"):
        (tmp_path / f"{name}.mode").touch()
    assert set(installed(tmp_path)) == {("en", "es"), ("en", "ca"), ("fr", "ca")}
    assert {("en", "es"), ("es", "en")} <= set(Apertium().pairs)


async def test_both_directions_are_translated(apertium: Apertium) -> None:
    assert await apertium.translate("The book is on the table.", "en", "es") == "El libro es en la mesa."
    assert await apertium.translate("El libro está en la mesa.", "es", "en") == "The book is in the table."


async def test_one_pipeline_answers_all_questions_in_their_order(apertium: Apertium) -> None:
    texts = [f"I have {number} books." for number in range(2, 42)]
    answers = await asyncio.gather(*(apertium.translate(text, "en", "es") for text in texts))
    assert [words(answer)[1] for answer in answers] == [str(number) for number in range(2, 42)]
    assert apertium._pipelines["en", "es"].starts == 1


async def test_a_pipeline_that_died_is_started_again(apertium: Apertium) -> None:
    await apertium.translate("Hello.", "en", "es")
    pipeline = apertium._pipelines["en", "es"]
    assert pipeline._process is not None
    os.killpg(pipeline._process.pid, signal.SIGKILL)
    await pipeline._process.wait()
    assert await apertium.translate("Good morning.", "en", "es") == "Buenos días."
    assert pipeline.starts == 2


@pytest.mark.parametrize(
    "text", ["[a] ^b$ {c} <d> @ / \\ end", "a\0b", "", "   ", "“quotes” — dash …", "早上好", "x" * 3000]
)
async def test_no_text_breaks_the_pipeline(apertium: Apertium, text: str) -> None:
    await apertium.translate(text, "en", "es")
    assert await apertium.translate("Good morning.", "en", "es") == "Buenos días."
    assert apertium._pipelines["en", "es"].starts == 1


async def test_spanish_has_its_marks_and_capitals(apertium: Apertium) -> None:
    assert await apertium.translate("Where is the hospital?", "en", "es") == "¿Dónde es el hospital?"
    assert (await apertium.translate("The water is cold.", "en", "es")).startswith("El agua")
    assert (
        await apertium.translate("Thank you very much for your help.", "en", "es")
        == "Muchas gracias para vuestra ayuda."
    )
    assert "Madrid" in await apertium.translate("I live in Madrid.", "en", "es")


async def test_a_program_that_says_nothing_is_given_up_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "PATIENCE", 0.3)
    conversation = Conversation(["sleep", "60"], b"\0")
    for _ in range(2):
        with pytest.raises(ProgramFailed):
            await conversation.ask(b"hello\0")
    assert conversation.starts == 2 and conversation._process is None


async def test_a_program_that_is_not_there_is_a_failure() -> None:
    with pytest.raises(ProgramFailed):
        await Conversation(["/no/such/program"], b"\0").ask(b"")


async def test_a_cancelled_question_does_not_answer_the_next_one() -> None:
    conversation = Conversation(["bash", "-c", "while read -r -d '' x; do sleep 0.2; printf '%s\\0' $x; done"], b"\0")
    first = asyncio.create_task(conversation.ask(b"first\0"))
    await asyncio.sleep(0.1)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert await conversation.ask(b"second\0") == b"second"
    await conversation.close()


def test_a_mode_that_cannot_be_read_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ProgramFailed):
        command(tmp_path / "no-such.mode")
