"""Nodes as processes of their own: signals, exit codes, and the node of the README as it is printed."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest_asyncio

from lingua_node.node import EXIT_REFUSED
from scheduler import Scheduler, until

README = Path(__file__).resolve().parents[1] / "README.md"
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "NODE_OWNERS.md"

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
    code, said = await ended(process)
    assert code == 0 and "Traceback" not in said, said


async def test_sigterm_ends_an_idle_node_at_once(scheduler: Scheduler, run: Run) -> None:
    process = await run(SLOW_NODE, "slow")
    process.send_signal(signal.SIGTERM)
    code, said = await ended(process)
    assert code == 0 and "Traceback" not in said, said


async def test_a_second_signal_cuts_the_jobs_off(scheduler: Scheduler, run: Run) -> None:
    process = await run(SLOW_NODE, "slow")
    await scheduler.runs(await scheduler.begin(context_text="60"))
    process.send_signal(signal.SIGTERM)
    await asyncio.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    code, said = await ended(process)
    assert code == 1 and "Traceback" not in said, said


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
    code, said = await ended(process)
    assert code == 0 and "Traceback" not in said, said


async def test_a_node_says_what_it_does_in_one_line_each(scheduler: Scheduler, run: Run) -> None:
    process = await run(SLOW_NODE, "slow")
    assert (await scheduler.ended(await scheduler.begin(context_text="0")))["state"] == "DONE"
    await asyncio.to_thread(scheduler.end)
    await asyncio.to_thread(scheduler.start)

    async def is_back() -> bool:
        return await scheduler.node("slow") is not None

    await until(is_back, "the node is back")
    process.send_signal(signal.SIGTERM)
    code, said = await ended(process)
    assert code == 0
    lines = [line.split(" ", 3)[-1] for line in said.splitlines()]
    opening = [f"connected to 127.0.0.1:{scheduler.port}", "registered as slow: 4 slots, en->es", "waiting for jobs"]
    assert lines[:4] == [*opening, "working: a job from en into es"]
    assert re.fullmatch(r"no scheduler: .+; trying again in \d+\.\d s", lines[4]), said
    assert lines[5] == opening[0] and re.fullmatch(r"found the scheduler after \d+\.\d s", lines[6]), said
    assert lines[7:9] == opening[1:] and lines[9:] == ["draining: no new jobs, those that run end"], said


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
    code, said = await ended(process)
    assert code == 0 and "Traceback" not in said, said


def block(text: str, language: str) -> str:
    """The first block of a language in a page, without its indentation."""
    found = re.search(rf"^( *)```{language}\n(.*?)^\1```", text, re.DOTALL | re.MULTILINE)
    assert found is not None, language
    return textwrap.dedent(found.group(2))


async def test_the_guide_for_owners_leads_to_the_first_job(scheduler: Scheduler, run: Run, tmp_path: Path) -> None:
    guide = GUIDE.read_text()
    script = block(guide, "python")
    file = tmp_path / "my_node.py"
    file.write_text(script)
    checking = [sys.executable, "-m", "lingua_node", "check", str(file), "--url", scheduler.url]
    checked = await asyncio.to_thread(lambda: subprocess.run(checking, capture_output=True, text=True, timeout=60))
    assert checked.returncode == 0 and "taken: it registered as gpu-7" in checked.stdout, checked
    process = await run(script, "gpu-7")

    async def is_ready() -> bool:
        return bool((await scheduler.ask("GET", "/v1/node/gpu-7"))[1]["state"] == "ready")

    await until(is_ready, "the node is there again after the check")
    _, answer = await scheduler.dispatch(options={"wait_ms": 20000})
    assert answer["job"]["state"] == "DONE" and answer["job"]["result"]["text_translated"] == "hola", answer
    status, seen = await scheduler.ask("GET", "/v1/node/gpu-7")
    assert status == 200 and seen["done"] == 1 and seen["state"] == "ready", seen
    fields = set(re.findall(r"^\| `(\w+)`", guide.split("## What I see")[1].split("## ")[0], re.MULTILINE))
    assert len(fields) > 5 and fields <= set(seen), fields - set(seen)
    process.send_signal(signal.SIGTERM)
    code, said = await ended(process)
    assert code == 0
    lines = [
        line.split(" ", 3)[-1].replace(f"127.0.0.1:{scheduler.port}", "scheduler.example") for line in said.splitlines()
    ]
    assert lines[:4] == block(guide, "text").splitlines(), said


def test_the_service_file_of_the_guide_knows_the_exit_code_of_a_refusal_and_leaves_time_to_drain() -> None:
    unit = dict(line.split("=", 1) for line in block(GUIDE.read_text(), "ini").splitlines() if "=" in line)
    assert unit["RestartPreventExitStatus"] == str(EXIT_REFUSED) and unit["Restart"] == "always"
    assert int(unit["TimeoutStopSec"]) > 30
