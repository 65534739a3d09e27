"""Connections that break, schedulers that go, and results that must arrive all the same."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from conftest import SPANISH, Start, echo
from lingua_node import Job, Languages, Node, Refused, Result
from lingua_socket.pauses import Pauses
from proxy import Proxy
from scheduler import Scheduler, until
from session import session


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_node_finds_a_scheduler_that_was_restarted(scheduler: Scheduler, start: Start, how: int) -> None:
    node = await start(echo, node_id="stays")
    await asyncio.to_thread(scheduler.end, how)
    await until(lambda: not node.stats.connected, "the node sees that it is gone")
    await asyncio.to_thread(scheduler.start)
    await until(lambda: node.stats.connected, "the node is back")
    assert node.node_id == "stays" and node.stats.connections == 2

    async def answered() -> bool:
        status, answer = await scheduler.dispatch(options={"wait_ms": 10000})
        return status == HTTPStatus.OK and answer["job"]["state"] == "DONE" and answer["node_id"] == "stays"

    await until(answered, "the node works for the new scheduler")


async def test_a_node_without_a_name_keeps_the_one_it_was_given(scheduler: Scheduler, start: Start) -> None:
    async with Proxy(scheduler.port) as proxy:
        node = Node(echo, SPANISH, url=proxy.url)
        task = asyncio.create_task(node.serve())
        await node.connected()
        given = node.node_id
        assert given is not None and given.startswith("node-")
        proxy.cut()
        await until(lambda: node.stats.connections == 2 and node.stats.connected, "the node is back")
        assert node.node_id == given
        node.stop()
        assert await task


async def test_a_half_open_connection_is_left(scheduler: Scheduler, start: Start) -> None:
    async with Proxy(scheduler.port) as proxy:
        node = await start(echo, url=proxy.url, node_id="half", heartbeat_s=0.2, silence_s=1.0)
        await asyncio.sleep(1.5)
        assert node.stats.connections == 1, "heartbeats are answered: that is not silence"
        proxy.go_silent()
        await until(lambda: node.stats.connections == 2 and node.stats.connected, "a new connection", 20)

        async def answered() -> bool:
            status, answer = await scheduler.dispatch(options={"wait_ms": 10000})
            return status == HTTPStatus.OK and answer["job"]["state"] == "DONE"

        await until(answered, "the node works again")


async def test_a_result_made_while_away_is_sent_after_the_reconnect(scheduler: Scheduler, start: Start) -> None:
    go = asyncio.Event()

    async def handle(job: Job) -> Result:
        await go.wait()
        return Result(text_translated="made while away")

    async with Proxy(scheduler.port) as proxy:
        node = await start(handle, url=proxy.url)
        job_id = await scheduler.begin()
        await scheduler.runs(job_id)
        proxy.refuses = True
        proxy.cut()
        await until(lambda: not node.stats.connected, "the connection is gone")
        go.set()
        await until(lambda: node.stats.unconfirmed == 1, "the result waits")
        proxy.refuses = False
        view = await scheduler.ended(job_id)
        assert view["state"] == "DONE", view
        assert view["result"]["text_translated"] == "made while away"
        assert (view["attempt_id"], node.stats.done) == (1, 1)
        await until(lambda: node.stats.unconfirmed == 0, "the result is confirmed")
        assert node.stats.resent >= 1


async def test_a_result_whose_ack_was_lost_is_sent_again_and_counts_once(scheduler: Scheduler, start: Start) -> None:
    go = asyncio.Event()

    async def handle(job: Job) -> Result:
        await go.wait()
        return Result(text_translated="once")

    async with Proxy(scheduler.port) as proxy:
        node = await start(handle, url=proxy.url, heartbeat_s=0.2, silence_s=1.5)
        job_id = await scheduler.begin()
        await scheduler.runs(job_id)
        proxy.swallow_answers()
        go.set()
        view = await scheduler.ended(job_id)
        assert (view["state"], view["result"]["text_translated"]) == ("DONE", "once")
        assert node.stats.unconfirmed == 1
        await until(lambda: node.stats.connections == 2, "a new connection")
        await until(lambda: node.stats.unconfirmed == 0, "the result is confirmed")
        assert node.stats.resent >= 1 and node.stats.done == 1
        assert len((await scheduler.ended(job_id))["attempts"]) == 1


async def test_words_on_the_way_reach_the_speaker(scheduler: Scheduler, start: Start) -> None:
    sent: list[bool] = []

    async def handle(job: Job) -> Result:
        for words in ("good", "good mor", "good morning"):
            sent.append(job.partial(words))
            await asyncio.sleep(0.05)
        sent.append(job.partial("good morning.", is_final=True))
        return Result(text_asr="good morning.", text_translated="buenos días", tts_audio=b"\1\2", tts_format="pcm16")

    await start(handle)
    async with session(scheduler.url, "en", "es", enable_streaming_asr=True) as speaker:
        await speaker.speak(bytes(32000))
        ending = await speaker.ending()
        assert ending["text_translated"] == "buenos días"
        assert base64.b64decode(ending["tts_audio"]) == b"\1\2"
        heard = [(partial["text"], partial["is_final"]) for partial in speaker.partials]
    assert sent == [True] * 4
    assert heard == [("good", False), ("good mor", False), ("good morning", False), ("good morning.", True)]


async def test_partials_that_nobody_wants_are_not_sent(scheduler: Scheduler, start: Start) -> None:
    sent: list[bool] = []

    async def handle(job: Job) -> Result:
        sent.append(job.partial("hello"))
        return Result(text_translated="x")

    await start(handle)
    async with session(scheduler.url, "en", "es") as speaker:
        await speaker.speak(bytes(3200))
        await speaker.ending()
        assert speaker.partials == []
    assert sent == [False]


async def test_a_newer_connection_of_the_same_node_ends_the_older_one(scheduler: Scheduler) -> None:
    older = Node(echo, SPANISH, url=scheduler.url, node_id="twin")
    first = asyncio.create_task(older.serve())
    await older.connected()
    newer = Node(echo, SPANISH, url=scheduler.url, node_id="twin")
    second = asyncio.create_task(newer.serve())
    with pytest.raises(Refused) as refused:
        await asyncio.wait_for(first, 20)
    assert refused.value.code == "SUPERSEDED"
    newer.stop()
    assert await second


async def test_a_node_that_cannot_do_anything_is_refused(scheduler: Scheduler) -> None:
    nothing = Languages(asr=["en"], semantic=[], nmt_pairs=[("en", "es")])
    with pytest.raises(Refused) as refused:
        await asyncio.wait_for(Node(echo, nothing, url=scheduler.url, node_id="n").serve(), 20)
    assert refused.value.code == "INVALID_CAPABILITY"


async def test_an_administrator_drains_and_resumes_a_node(scheduler: Scheduler, start: Start) -> None:
    orders: list[str] = []
    node = await start(echo, on_control=lambda command, _reason: orders.append(command))
    await scheduler.ask("POST", "/api/v1/nodes/py-0/drain")
    await until(lambda: orders == ["drain"], "the node hears of it")
    status, answer = await scheduler.dispatch(options={"wait_ms": 5000})
    assert status != HTTPStatus.OK or answer["job"]["state"] == "FAILED", answer
    await scheduler.ask("POST", "/api/v1/nodes/py-0/resume")
    await until(lambda: orders == ["drain", "resume"], "and again")
    _, answer = await scheduler.dispatch(session_id="room-2", options={"wait_ms": 20000})
    assert answer["job"]["state"] == "DONE" and node.stats.connections == 1


async def test_the_token_is_a_header_and_in_no_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("lingua_node").setLevel(logging.DEBUG)
    heard: list[tuple[str, str | None, str]] = []

    async def scheduler(socket: ServerConnection) -> None:
        assert socket.request is not None
        first = await socket.recv()
        assert isinstance(first, str)
        heard.append((socket.request.path, socket.request.headers.get("Authorization"), first))
        # The first time it may come back, and says so in its log.
        await socket.close(1013 if len(heard) % 2 else 1008, "enough")

    monkeypatch.setenv("LINGUA_NODE_TOKEN", "from-the-environment")
    async with serve(scheduler, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        for given, expected in ((None, "from-the-environment"), ("from-the-argument", "from-the-argument")):
            with pytest.raises(Refused):
                await Node(echo, SPANISH, url=f"http://127.0.0.1:{port}", node_id="t", token=given).serve()
            assert len(heard) == 2
            for path, header, register in heard:
                assert (path, header) == ("/ws/node", f"Bearer {expected}")
                assert expected not in register
            heard.clear()
    # The test's own server logs its headers; the node's loggers must not.
    said = [record.getMessage() for record in caplog.records if record.name != "websockets.server"]
    assert any("trying again" in line for line in said) and not any("from-the" in line for line in said)


REGISTERED = {"type": "node_register_ack", "node_id": "n", "status": "ready", "heartbeat_interval_ms": 100}


async def test_a_node_that_is_not_known_any_more_registers_again_on_the_same_connection() -> None:
    kinds: list[str] = []
    again = asyncio.Event()

    async def scheduler(socket: ServerConnection) -> None:
        async for text in socket:
            kind = json.loads(text)["type"]
            kinds.append(kind)
            if kind == "node_register":
                await socket.send(json.dumps(REGISTERED))
            if kinds.count("node_register") == 2:
                again.set()
            elif kind == "node_heartbeat":
                await socket.send(json.dumps({"type": "error", "code": "NOT_FOUND", "message": "register again"}))

    async with fake(scheduler) as url:
        node = Node(echo, SPANISH, url=url, node_id="n")
        task = asyncio.create_task(node.serve())
        await asyncio.wait_for(again.wait(), 20)
        assert kinds[0] == "node_register" and kinds[1] == "node_heartbeat"
        assert node.stats.connections == 1
        node.stop()
        assert await task


async def test_a_scheduler_that_stops_says_when_to_come_back() -> None:
    opened: list[float] = []

    async def scheduler(socket: ServerConnection) -> None:
        opened.append(time.monotonic())
        await socket.recv()
        await socket.send(json.dumps(REGISTERED))
        await socket.close(1001, '{"retry_after_ms": 900}')

    async with fake(scheduler) as url:
        node = Node(echo, SPANISH, url=url, node_id="n")
        task = asyncio.create_task(node.serve())
        await until(lambda: len(opened) >= 2, "it comes back")
        node.stop()
        await task
    assert opened[1] - opened[0] >= 0.9


async def test_what_the_scheduler_should_not_say_does_not_end_the_node() -> None:
    strange: list[str | bytes] = [
        "",
        "[]",
        '{"type": "job_assign"}',
        '{"type": "job_cancel"}',
        '{"type": "new_in_2030"}',
        b"\x21",
        b"\x21\x01jx",
    ]
    heard = asyncio.Event()

    async def scheduler(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send(json.dumps(REGISTERED))
        for message in strange:
            await socket.send(message)
        await socket.send(
            json.dumps({"type": "job_assign", "job_id": "j", "src_lang": "en", "tgt_lang": "es", "audio": "?"})
        )
        await socket.send(json.dumps({"type": "job_assign", "job_id": "k", "src_lang": "en", "tgt_lang": "es"}))
        await socket.send(b"\x21\x01kspeech")
        async for text in socket:
            message = json.loads(text)
            if message["type"] == "job_result":
                assert (message["job_id"], message["tts_audio"]) == ("k", base64.b64encode(b"speech").decode())
                heard.set()

    def breaks() -> dict[str, float]:
        raise OSError

    async with fake(scheduler) as url:
        node = Node(echo, SPANISH, url=url, node_id="n", usage=breaks)
        task = asyncio.create_task(node.serve())
        await asyncio.wait_for(heard.wait(), 20)
        assert node.stats.connections == 1
        node.stop()
        await task


@asynccontextmanager
async def fake(scheduler: Callable[[ServerConnection], Awaitable[None]]) -> AsyncIterator[str]:
    """A peer that says what the real scheduler does not."""
    async with serve(scheduler, "127.0.0.1", 0) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


@pytest.mark.parametrize("status", [HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN])
async def test_a_wrong_token_ends_the_node(status: HTTPStatus) -> None:
    def refuse(socket: ServerConnection, request: Request) -> Response:
        return socket.respond(status, "no\n")

    async with serve(_nothing, "127.0.0.1", 0, process_request=refuse) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        with pytest.raises(Refused) as refused:
            await asyncio.wait_for(Node(echo, SPANISH, url=f"ws://127.0.0.1:{port}", token="t").serve(), 20)  # noqa: S106
        assert refused.value.code == status.name


async def test_the_token_does_not_follow_a_redirect() -> None:
    asked: list[str] = []

    def redirect(socket: ServerConnection, request: Request) -> Response:
        asked.append(request.path)
        return Response(302, "Found", Headers(Location="/elsewhere", **{"Content-Length": "0"}), b"")

    async with serve(_nothing, "127.0.0.1", 0, process_request=redirect) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        node = Node(echo, SPANISH, url=f"ws://127.0.0.1:{port}", token="t")  # noqa: S106
        task = asyncio.create_task(node.serve())
        await until(lambda: len(asked) >= 2, "it tries again")
        node.stop()
        await task
    assert set(asked) == {"/ws/node"}


async def _nothing(socket: ServerConnection) -> None:
    await socket.close()


@pytest.mark.parametrize(
    "url", ["ws://user:secret@h:1", "ws://h:1/?token=secret", "ftp://h:1", "127.0.0.1:5010", "ws://", "ws://h:1/#x"]
)
def test_an_address_with_a_secret_or_without_sense_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url") as refused:
        Node(echo, SPANISH, url=url)
    assert "secret" not in str(refused.value)


def test_pauses_grow_with_jitter_and_have_an_end() -> None:
    pauses = Pauses(0.1, 5.0)
    seen = [pauses.next() for _ in range(12)]
    for index, pause in enumerate(seen):
        size = min(0.1 * 2**index, 5.0)
        assert 0.5 * size <= pause <= 1.5 * size
    assert len({round(pause / 5.0, 6) for pause in seen[7:]}) > 1, "they are not all the same"
    pauses.reset()
    assert pauses.next() <= 0.15
