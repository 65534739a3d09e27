"""Messages that cannot be, and the bounds of what is kept. No scheduler would do this to us on purpose."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

import pytest

from lingua_node import Job, Languages, Node, Result, in_thread, wire, work
from lingua_node.link import Link
from lingua_node.work import Work


class Ear:
    """Takes the place of a connection and remembers what is said."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    def say(self, message: str) -> bool:
        self.heard.append(wire.decode(message))
        return True

    def kinds(self) -> list[str]:
        return [message["type"] for message in self.heard]


def assign(job_id: str, attempt: int = 1, **more: Any) -> dict[str, Any]:
    return {"type": "job_assign", "job_id": job_id, "attempt_id": attempt, "src_lang": "en", "tgt_lang": "es", **more}


def working(handle: Any, slots: int = 4) -> tuple[Work, Ear]:
    jobs, ear = Work(handle, slots), Ear()
    jobs.attach(cast(Link, ear))
    return jobs, ear


async def settle(jobs: Work) -> None:
    while jobs.running:
        await asyncio.sleep(0)


async def fine(job: Job) -> Result:
    return Result(text_translated="x" * 1000)


async def test_the_oldest_results_are_given_up_when_nobody_confirms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "MAX_KEPT", 3)
    jobs, _ = working(fine)
    for number in range(5):
        jobs.assign(assign(f"j{number}"), b"", "n")
        await settle(jobs)
    assert jobs.kept == 3
    again = Ear()
    jobs.attach(cast(Link, again))
    assert [message["job_id"] for message in again.heard] == ["j2", "j3", "j4"]


async def test_kept_results_are_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "MAX_KEPT_BYTES", 3000)
    jobs, _ = working(fine)
    for number in range(5):
        jobs.assign(assign(f"j{number}"), b"", "n")
        await settle(jobs)
    assert jobs.kept == 2


async def test_a_result_long_past_its_deadline_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "KEEP_AFTER_DEADLINE", 0.05)
    jobs, _ = working(fine)
    jobs.assign(assign("j", deadline_ms=wire.epoch_ms() + 100), b"", "n")
    await settle(jobs)
    jobs.beat()
    assert jobs.kept == 1
    await asyncio.sleep(0.2)
    jobs.beat()
    assert jobs.kept == 0


async def test_an_attempt_that_comes_again_is_not_worked_on_twice() -> None:
    calls = 0
    go = asyncio.Event()

    async def handle(job: Job) -> Result:
        nonlocal calls
        calls += 1
        await go.wait()
        return Result()

    jobs, ear = working(handle)
    jobs.assign(assign("j", lease_token="L"), b"", "n")  # noqa: S106
    jobs.assign(assign("j", lease_token="L"), b"", "n")  # noqa: S106
    go.set()
    await settle(jobs)
    jobs.assign(assign("j"), b"", "n")
    assert ear.kinds() == ["job_ack", "job_ack", "job_result", "job_result"]
    assert all(message["lease_token"] == "L" for message in ear.heard)  # noqa: S105
    jobs.acked("j", 1)
    jobs.assign(assign("j"), b"", "n")
    assert (calls, len(ear.heard), jobs.kept) == (1, 4, 0)
    jobs.assign(assign("j", 2), b"", "n")
    await settle(jobs)
    assert calls == 2, "the next attempt is another one"


async def test_unconfirmed_results_come_again_with_every_second_heartbeat() -> None:
    jobs, ear = working(fine)
    jobs.assign(assign("j"), b"", "n")
    await settle(jobs)
    sent = []
    for _ in range(6):
        jobs.beat()
        sent.append(ear.kinds().count("job_result"))
    assert sent == [1, 2, 2, 3, 3, 4]


async def test_a_job_that_cannot_be_read_is_rejected_by_name() -> None:
    jobs, ear = working(fine)
    jobs.assign({"type": "job_assign", "job_id": "j", "attempt_id": 1, "src_lang": 7}, b"", "n")
    assert ear.kinds() == ["job_reject"]
    assert "src_lang" in ear.heard[0]["reason"]
    with pytest.raises(wire.Invalid, match="job_id"):
        jobs.assign({"type": "job_assign"}, b"", "n")


async def test_deadlines_are_on_the_clock_of_the_scheduler() -> None:
    left: list[float | None] = []

    async def handle(job: Job) -> Result:
        left.append(job.seconds_left())
        return Result()

    jobs, _ = working(handle)
    jobs.clock_ahead_ms = 3_600_000
    jobs.assign(assign("j", deadline_ms=wire.epoch_ms() + 3_610_000), b"", "n")
    await settle(jobs)
    assert left[0] is not None and 9 < left[0] <= 10


async def test_a_worker_that_does_not_let_itself_be_cancelled_keeps_its_slot_and_says_nothing() -> None:
    async def stubborn(job: Job) -> Result:
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue
        assert not job.partial("late") and not job.progress("late")
        return Result()

    jobs, ear = working(stubborn, slots=1)
    jobs.assign(assign("j", enable_streaming_asr=True), b"", "n")
    await asyncio.sleep(0.05)
    jobs.cancel("j", 1)
    assert (jobs.running, jobs.listed()) == (1, [])
    jobs.assign(assign("k"), b"", "n")
    await settle(jobs)
    assert ear.kinds() == ["job_ack", "job_reject"]


async def test_partials_come_no_more_often_than_asked_for() -> None:
    sent: list[bool] = []

    async def handle(job: Job) -> Result:
        for _ in range(3):
            sent.append(job.partial("a"))
        sent.append(job.partial("a", is_final=True))
        return Result()

    jobs, _ = working(handle)
    jobs.assign(assign("j", enable_streaming_asr=True, partial_update_interval_ms=60000), b"", "n")
    await settle(jobs)
    assert sent == [True, False, False, True]


async def test_what_a_thread_raises_comes_out_where_it_is_awaited() -> None:
    def breaks(job: Job) -> Result:
        raise KeyError("x")

    def stops(job: Job) -> Result:
        raise StopIteration

    for blocks, expected in ((breaks, KeyError), (stops, RuntimeError)):
        with pytest.raises(expected):
            await in_thread(blocks)(wire.job_of(assign("j"), b""))


@pytest.mark.parametrize("frame", [b"", b"\x21", b"\x21\x03j1", b"\x22\x02j1audio", b"\x21\x01\xff"])
def test_a_broken_audio_frame_is_refused(frame: bytes) -> None:
    with pytest.raises(wire.Invalid):
        wire.audio_frame(frame)


def test_an_audio_frame_is_split() -> None:
    assert wire.audio_frame(b"\x21\x02j1audio") == ("j1", b"audio")
    assert wire.audio_frame(b"\x21\x02j1") == ("j1", b"")


@pytest.mark.parametrize("text", ["", "[]", "7", "{}", '{"type": 7}', "[" * 100_000, "{"])
def test_what_is_no_message_is_refused(text: str) -> None:
    with pytest.raises(wire.Invalid):
        wire.decode(text)


def test_a_text_that_is_no_unicode_cannot_be_sent() -> None:
    with pytest.raises(wire.Invalid):
        wire.encode({"text": "\ud800"})


def test_languages_and_slots_are_checked_where_they_are_written() -> None:
    with pytest.raises(ValueError, match="semantic"):
        Languages(asr=["en"], semantic="en", nmt_pairs="any")
    with pytest.raises(ValueError, match="asr"):
        Languages(asr=["en"] * 65, semantic=["en"], nmt_pairs="any")
    with pytest.raises(ValueError, match="nmt_pairs"):
        Languages(asr=["en"], semantic=["en"], nmt_pairs=cast(Any, "en-es"))
    with pytest.raises(ValueError, match="slots"):
        Node(fine, Languages(asr=["en"], semantic=["en"], nmt_pairs="any"), slots=0)


async def test_a_node_that_drains_refuses_what_still_comes() -> None:
    jobs, ear = working(fine)
    jobs.refuses = True
    jobs.assign(assign("j"), b"", "n")
    assert [(message["type"], message["reason"]) for message in ear.heard] == [("job_reject", "BUSY")]


async def test_a_worker_that_is_cancelled_from_within_has_failed() -> None:
    async def handle(job: Job) -> Result:
        raise asyncio.CancelledError

    jobs, ear = working(handle)
    jobs.assign(assign("j"), b"", "n")
    await settle(jobs)
    assert ear.kinds() == ["job_ack", "job_result"]
    assert (ear.heard[1]["success"], ear.heard[1]["error"]["code"]) == (False, "PROCESSING_ERROR")
