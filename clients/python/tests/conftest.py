from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from described import differences, overheard
from lingua_node import Job, Languages, Node, Result
from scheduler import Scheduler, until

SPANISH = Languages(asr=["en"], semantic=["en"], nmt_pairs=[("en", "es")], tts=["es"])

Start = Callable[..., Awaitable[Node]]


@pytest.fixture(autouse=True)
def as_described(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test says to a real scheduler and hears from it is as the scheduler describes it."""
    with overheard() as said:
        yield
    if {"scheduler", "gated"} & set(request.fixturenames):
        assert Scheduler.description is not None
        assert differences(Scheduler.description, said) == []


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    scheduler = Scheduler(tmp_path / "scheduler.log")
    scheduler.start()
    yield scheduler
    scheduler.end()


@pytest_asyncio.fixture
async def start(scheduler: Scheduler) -> AsyncIterator[Start]:
    """Starts nodes within the test, and ends them with it."""
    served: list[tuple[Node, asyncio.Task[bool]]] = []

    async def start(handle: Callable[[Job], Awaitable[Result]], **options: Any) -> Node:
        options.setdefault("node_id", f"py-{len(served)}")
        options.setdefault("url", scheduler.url)
        node = Node(handle, SPANISH, **options)
        task = asyncio.create_task(node.serve())
        served.append((node, task))
        connected = asyncio.ensure_future(node.connected())
        await asyncio.wait({connected, task}, return_when=asyncio.FIRST_COMPLETED, timeout=20)
        if task.done():
            connected.cancel()
            task.result()
        assert connected.done(), "the node did not register"
        await until(lambda: is_ready(scheduler, options["node_id"]), "the scheduler sees the node")
        return node

    yield start
    for node, task in served:
        node.stop()
        if not task.done():
            await asyncio.wait_for(task, 20)


async def is_ready(scheduler: Scheduler, node_id: str) -> bool:
    _, answer = await scheduler.ask("GET", f"/api/v1/explain?src=en&tgt=es&tts=true&node={node_id}")
    return await scheduler.node(node_id) is not None and bool(answer)


async def echo(job: Job) -> Result:
    """Says back what it heard."""
    return Result(text_asr="hello", text_translated="hola", tts_audio=job.audio, tts_format=job.audio_format)
