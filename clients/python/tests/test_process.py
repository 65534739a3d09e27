"""Nodes as processes of their own: signals, exit codes, and the node of the README as it is printed."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest_asyncio

from scheduler import Scheduler, until

README = Path(__file__).resolve().parents[1] / "README.md"

SLOW_NODE = """
import asyncio
from lingua_node import Job, Languages, Node, Result

async def handle(job: Job) -> Result:
    await asyncio.sleep(float(job.message["context_text"]))
    return Result(text_translated="finished")

Node(handle, Languages(asr=["en"], semantic=["en"], nmt_pairs=[("en", "es")], tts=["es"]), node_id="slow").run()
"""

Run = Callable[[str, str], Awaitable["subprocess.Popen[str]"]]


@pytest_asyncio.fixture
async def run(scheduler: Scheduler, tmp_path: Path) -> AsyncIterator[Run]:
    """Runs a script as a node and waits until the scheduler knows it by its name."""
    started: list[subprocess.Popen[str]] = []

    async def run(script: str, node_id: str) -> subprocess.Popen[str]:
        file = tmp_path / "node.py"
        file.write_text(script)
        environment = {**os.environ, "LINGUA_URL": scheduler.url}
        process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
            [sys.executable, str(file)], env=environment, text=True, stderr=subprocess.PIPE
        )
        started.append(process)

        async def known() -> bool:
            if process.poll() is not None:
                _, said = process.communicate()
                raise AssertionError(f"the node ended: {said}")
            return await scheduler.node(node_id) is not None

        await until(known, "the scheduler knows the node")
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


async def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, said = await asyncio.to_thread(process.communicate, None, 30)
    return process.returncode, said


async def test_sigterm_lets_jobs_end_takes_no_new_ones_and_exits_with_0(scheduler: Scheduler, run: Run) -> None:
    process = await run(SLOW_NODE, "slow")
    job_id = await scheduler.begin(context_text="3")
    await scheduler.runs(job_id)
    process.send_signal(signal.SIGTERM)

    async def drains() -> bool:
        view = await scheduler.node("slow")
        return view is not None and "draining" in str(view).lower()

    await until(drains, "the scheduler knows that it drains")
    status, answer = await scheduler.dispatch(session_id="late", context_text="0", options={"wait_ms": 1500})
    assert status != 200 or answer["job"]["state"] == "FAILED", answer
    assert process.poll() is None, "it still works"
    view = await scheduler.ended(job_id)
    assert (view["state"], view["result"]["text_translated"]) == ("DONE", "finished")
    assert await ended(process) == (0, "")


async def test_sigterm_ends_an_idle_node_at_once(scheduler: Scheduler, run: Run) -> None:
    process = await run(SLOW_NODE, "slow")
    process.send_signal(signal.SIGTERM)
    assert await ended(process) == (0, "")


async def test_a_second_signal_cuts_the_jobs_off(scheduler: Scheduler, run: Run) -> None:
    process = await run(SLOW_NODE, "slow")
    await scheduler.runs(await scheduler.begin(context_text="60"))
    process.send_signal(signal.SIGTERM)
    await asyncio.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    code, said = await ended(process)
    assert code == 1 and said == ""


async def test_a_drain_has_an_end(scheduler: Scheduler, run: Run) -> None:
    process = await run(SLOW_NODE.replace('node_id="slow"', 'node_id="slow", drain_s=1'), "slow")
    await scheduler.runs(await scheduler.begin(context_text="60"))
    process.send_signal(signal.SIGTERM)
    code, _ = await ended(process)
    assert code == 1


async def test_sigterm_without_a_scheduler_ends_the_node(scheduler: Scheduler, run: Run) -> None:
    process = await run(SLOW_NODE, "slow")
    await asyncio.to_thread(scheduler.end)
    await asyncio.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    assert await ended(process) == (0, "")


async def test_the_node_of_the_readme_works_as_it_is_printed(scheduler: Scheduler, run: Run) -> None:
    printed = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert printed is not None
    script = printed.group(1)
    assert len([line for line in script.splitlines() if line.strip()]) <= 10
    process = await run(script, "readme-1")
    audio = bytes(range(256)) * 4
    _, answer = await scheduler.dispatch(audio, options={"wait_ms": 20000})
    assert answer["job"]["state"] == "DONE", answer
    result = answer["job"]["result"]
    assert result["text_translated"] == "hola"
    assert base64.b64decode(result["tts_audio"]) == audio
    process.send_signal(signal.SIGTERM)
    assert await ended(process) == (0, "")
