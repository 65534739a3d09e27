"""What a worker can do with a job, against the real scheduler."""

from __future__ import annotations

import asyncio
import base64
import os
import threading
import time

import pytest

from conftest import Start, echo
from lingua_node import Busy, Job, JobFailed, MissingModel, Result, in_thread
from scheduler import Scheduler, until


async def test_a_job_is_answered(scheduler: Scheduler, start: Start) -> None:
    node = await start(echo)
    status, answer = await scheduler.dispatch(options={"wait_ms": 20000})
    assert status == 200, answer
    assert answer["job"]["state"] == "DONE"
    assert answer["job"]["result"]["text_translated"] == "hola"
    assert answer["node_id"] == "py-0"
    await until(lambda: node.stats.unconfirmed == 0, "the result is confirmed")
    assert (node.stats.done, node.stats.failed, node.stats.running) == (1, 0, 0)


@pytest.mark.parametrize("binary_audio", [True, False])
async def test_audio_goes_both_ways_byte_by_byte(scheduler: Scheduler, start: Start, binary_audio: bool) -> None:
    heard: list[bytes] = []

    async def handle(job: Job) -> Result:
        heard.append(job.audio)
        return Result(tts_audio=job.audio[::-1], tts_format="pcm16")

    await start(handle, binary_audio=binary_audio)
    spoken = os.urandom(300_000)
    _, answer = await scheduler.dispatch(spoken, options={"wait_ms": 20000})
    assert heard == [spoken]
    assert base64.b64decode(answer["job"]["result"]["tts_audio"]) == spoken[::-1]


async def test_a_node_that_takes_text_is_given_texts(scheduler: Scheduler, start: Start) -> None:
    jobs: list[Job] = []

    async def handle(job: Job) -> Result:
        jobs.append(job)
        return Result(text_translated=f"[{job.tgt_lang}] {job.text}")

    await start(handle, takes_text=True)
    _, answer = await scheduler.dispatch(audio=None, text="good morning", options={"wait_ms": 20000})
    assert answer["job"]["result"]["text_translated"] == "[es] good morning"
    (job,) = jobs
    assert (job.text, job.audio, job.wants("asr")) == ("good morning", b"", False)
    assert "text" not in job.message


async def test_a_job_carries_what_the_caller_said(scheduler: Scheduler, start: Start) -> None:
    jobs: list[Job] = []

    async def handle(job: Job) -> Result:
        jobs.append(job)
        return Result()

    await start(handle)
    await scheduler.dispatch(
        pipeline={"use_tts": False, "use_semantic": True},
        context_text="before",
        dialect="us",
        options={"wait_ms": 20000, "deadline_ms": 20000},
    )
    (job,) = jobs
    assert (job.src_lang, job.tgt_lang, job.audio_format, job.sample_rate) == ("en", "es", "pcm16", 16000)
    assert (job.wants("tts"), job.wants("semantic"), job.wants("asr")) == (False, True, True)
    assert (job.message["context_text"], job.message["dialect"]) == ("before", "us")
    assert "audio" not in job.message and "lease_token" not in job.message
    left = job.seconds_left()
    assert left is not None and 0 < left <= 20.5, "two clocks are compared"
    assert "before" not in repr(job)


async def test_every_field_of_a_result_arrives(scheduler: Scheduler, start: Start) -> None:
    async def handle(job: Job) -> Result:
        return Result(
            text_asr="a",
            text_translated="ñandú 早",
            tts_audio=b"\1\2",
            tts_format="pcm16",
            extra={"k": [1, {"n": None}]},
            service_timings={"asr_ms": 1.5},
            network_timings={"up_ms": 2},
            asr_quality_level="good",
            quality_score=0.5,
            rerun_count=1,
            reason_codes=["X"],
            segments_meta=[{"start": 0}],
        )

    await start(handle)
    _, answer = await scheduler.dispatch(options={"wait_ms": 20000})
    result = answer["job"]["result"]
    assert result["text_translated"] == "ñandú 早"
    assert result["extra"] == {"k": [1, {"n": None}]}
    assert result["service_timings"] == {"asr_ms": 1.5}
    assert (result["quality_score"], result["rerun_count"], result["asr_quality_level"]) == (0.5, 1, "good")
    assert (result["reason_codes"], result["segments_meta"]) == (["X"], [{"start": 0}])
    assert result["processing_time_ms"] >= 0


async def test_silence_is_an_ending_and_not_a_failure(scheduler: Scheduler, start: Start) -> None:
    async def handle(job: Job) -> Result:
        return Result.nothing_said()

    await start(handle)
    _, answer = await scheduler.dispatch(options={"wait_ms": 20000})
    assert (answer["job"]["state"], answer["job"]["empty_reason"]) == ("DONE", "ASR_EMPTY")


async def test_what_a_worker_raises_fails_its_job_and_nothing_else(
    scheduler: Scheduler, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    calls = 0

    async def handle(job: Job) -> Result:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError("what the speaker said")
        return await echo(job)

    node = await start(handle)
    job_id = await scheduler.begin()
    view = await scheduler.ended(job_id)
    # The attempt failed with our code; with no other node there is no other attempt.
    assert view["state"] == "FAILED", view
    assert "PROCESSING_ERROR" in str(view["attempts"]) + str(view["error"])
    assert "what the speaker said" not in str(view)
    assert any(record.exc_info for record in caplog.records), "the trace stays on the node"
    assert node.stats.failed == 1
    _, answer = await scheduler.dispatch(options={"wait_ms": 20000})
    assert answer["job"]["state"] == "DONE"


async def test_a_failure_with_a_code_reaches_the_caller(scheduler: Scheduler, start: Start) -> None:
    async def handle(job: Job) -> Result:
        raise JobFailed("NMT_TIMEOUT", "the model did not answer", {"after_ms": 5})

    await start(handle)
    view = await scheduler.ended(await scheduler.begin())
    assert view["state"] == "FAILED"
    assert view["error"]["code"] == "NMT_TIMEOUT"
    assert "the model did not answer" in str(view["error"])


@pytest.mark.parametrize("wrong", [Result(extra={"x": object()}), Result(extra={"x": float("nan")}), "no result"])
async def test_a_result_that_cannot_be_sent_is_a_failure(scheduler: Scheduler, start: Start, wrong: Result) -> None:
    async def handle(job: Job) -> Result:
        return wrong

    node = await start(handle)
    view = await scheduler.ended(await scheduler.begin())
    assert view["state"] == "FAILED"
    assert node.stats.failed == 1 and node.stats.connected


async def test_a_result_too_large_is_a_failure_and_the_connection_stays(scheduler: Scheduler, start: Start) -> None:
    async def handle(job: Job) -> Result:
        return Result(tts_audio=bytes(16 << 20), tts_format="pcm16")

    node = await start(handle)
    view = await scheduler.ended(await scheduler.begin())
    assert view["state"] == "FAILED"
    assert node.stats.connections == 1


async def test_a_busy_worker_sends_the_job_to_another_node(scheduler: Scheduler, start: Start) -> None:
    async def busy(job: Job) -> Result:
        raise Busy

    first = await start(busy, node_id="busy")
    await start(echo, node_id="free")
    for index in range(6):
        _, answer = await scheduler.dispatch(
            session_id=f"room-{index}", options={"wait_ms": 20000, "preferred_node_id": "busy"}
        )
        assert (answer["job"]["state"], answer["job"]["node_id"]) == ("DONE", "free"), answer
    assert first.stats.rejected >= 1 and first.stats.failed == 0


async def test_a_missing_model_is_told_by_its_name(scheduler: Scheduler, start: Start) -> None:
    async def handle(job: Job) -> Result:
        raise MissingModel("nmt-en-es", "2")

    node = await start(handle)
    view = await scheduler.ended(await scheduler.begin())
    assert view["state"] == "FAILED"
    assert "MODEL_NOT_AVAILABLE" in str(view), view
    assert node.stats.rejected == 1
    _, seen = await scheduler.ask("GET", "/api/v1/nodes/py-0")
    assert "nmt-en-es" in str(seen), seen


async def test_a_cancelled_job_stops_its_worker(scheduler: Scheduler, start: Start) -> None:
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def handle(job: Job) -> Result:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            assert job.is_cancelled
            cancelled.set()
            raise
        return Result()

    node = await start(handle)
    job_id = await scheduler.begin()
    await asyncio.wait_for(began.wait(), 20)
    status, _ = await scheduler.ask("DELETE", f"/v1/job/{job_id}")
    assert status == 200
    await asyncio.wait_for(cancelled.wait(), 20)
    assert (await scheduler.ended(job_id))["state"] == "CANCELLED"
    await until(lambda: node.stats.running == 0, "the slot is free")
    assert (node.stats.cancelled, node.stats.unconfirmed) == (1, 0)


async def test_a_worker_past_the_deadline_is_cancelled(scheduler: Scheduler, start: Start) -> None:
    cancelled: list[float] = []

    async def handle(job: Job) -> Result:
        began = time.monotonic()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.append(time.monotonic() - began)
        return Result()

    node = await start(handle)
    view = await scheduler.ended(await scheduler.begin(options={"deadline_ms": 1500}))
    assert view["state"] == "FAILED"
    await until(lambda: cancelled, "the worker is cancelled")
    assert 0.5 < cancelled[0] < 10
    await until(lambda: node.stats.running == 0, "the slot is free")


async def test_the_node_keeps_the_deadline_by_itself(scheduler: Scheduler, start: Start) -> None:
    """The scheduler stands still, so nobody says that the job is over."""
    ended = asyncio.Event()

    async def handle(job: Job) -> Result:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return Result()

    node = await start(handle, silence_s=30)
    await scheduler.begin(options={"deadline_ms": 3000})
    await until(lambda: node.stats.running == 1, "the job runs")
    assert scheduler._process is not None
    scheduler._process.send_signal(19)
    try:
        await asyncio.wait_for(ended.wait(), 20)
    finally:
        scheduler._process.send_signal(18)
    assert node.stats.cancelled == 0 and node.stats.failed == 1


async def test_a_node_runs_at_most_as_many_jobs_as_it_has_slots(scheduler: Scheduler, start: Start) -> None:
    now, most = 0, 0

    async def handle(job: Job) -> Result:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.1)
        now -= 1
        return Result(text_translated="ok")

    await start(handle, slots=2)
    asked = [scheduler.dispatch(session_id=f"r-{n}", options={"wait_ms": 20000}) for n in range(8)]
    answers = await asyncio.gather(*asked)
    done = [answer for status, answer in answers if status == 200 and answer["job"]["state"] == "DONE"]
    assert len(done) >= 2, answers
    assert most <= 2


async def test_a_full_node_rejects_what_comes_on_top(scheduler: Scheduler, start: Start) -> None:
    """A thread cannot be stopped: the scheduler thinks that the slot of its cancelled job is free."""
    let_go = threading.Event()

    def blocks(job: Job) -> Result:
        let_go.wait(30)
        return Result(text_translated="late")

    node = await start(in_thread(blocks), slots=1, node_id="full")
    await start(echo, node_id="other")
    wish = {"preferred_node_id": "full"}
    job_id = await scheduler.begin(options=wish)
    await until(lambda: node.stats.running == 1, "the thread runs")
    await scheduler.ask("DELETE", f"/v1/job/{job_id}")
    await until(lambda: node.stats.cancelled == 1, "the job is cancelled")
    assert node.stats.running == 1
    _, answer = await scheduler.dispatch(session_id="room-2", options={**wish, "wait_ms": 20000})
    assert (answer["job"]["state"], answer["job"]["node_id"]) == ("DONE", "other")
    await until(lambda: node.stats.rejected >= 1, "the full node said BUSY")
    let_go.set()
    await until(lambda: node.stats.running == 0, "the slot is free")
    assert node.stats.done == 0, "what a cancelled job returns is not sent"
    _, answer = await scheduler.dispatch(session_id="room-3", options={**wish, "wait_ms": 20000})
    assert answer["job"]["state"] == "DONE"


async def test_a_slow_worker_keeps_its_job_by_heartbeats(scheduler: Scheduler, start: Start) -> None:
    """Longer than a lease without a word: the running list renews it."""

    async def slow(job: Job) -> Result:
        await asyncio.sleep(17)
        return Result(text_translated="at last")

    node = await start(slow)
    _, answer = await scheduler.dispatch(options={"wait_ms": 40000, "deadline_ms": 40000})
    job = answer["job"]
    assert (job["state"], job["attempt_id"], len(job["attempts"])) == ("DONE", 1, 1), job
    assert node.stats.done == 1


async def test_a_worker_that_talks_without_end_does_not_cost_the_node_its_connection(
    scheduler: Scheduler, start: Start
) -> None:
    said: list[int] = []

    def talks(job: Job) -> Result:
        end = time.monotonic() + 1.5
        calls = sent = 0
        while time.monotonic() < end:
            calls += 1
            sent += job.progress("nmt", step=calls)
        said.extend([calls, sent])
        return Result(text_translated="done")

    node = await start(in_thread(talks))
    _, answer = await scheduler.dispatch(options={"wait_ms": 20000})
    assert answer["job"]["state"] == "DONE", answer
    calls, sent = said
    assert 100 < sent < 1500 and calls > 2 * sent, said
    assert node.stats.connections == 1 and node.stats.connected


async def test_a_worker_in_a_thread_answers_and_shows_its_progress(scheduler: Scheduler, start: Start) -> None:
    seen, go = threading.Event(), threading.Event()

    def blocks(job: Job) -> Result:
        assert job.progress("nmt", percent=40)
        seen.set()
        assert go.wait(20)
        return Result(text_translated=threading.current_thread().name)

    await start(in_thread(blocks))
    job_id = await scheduler.begin()
    await asyncio.to_thread(seen.wait, 20)

    async def shown() -> bool:
        _, view = await scheduler.ask("GET", f"/v1/job/{job_id}")
        return "nmt" in str(view)

    await until(shown, "the job's view shows the stage")
    go.set()
    view = await scheduler.ended(job_id)
    assert view["result"]["text_translated"] == "lingua-node-worker"
