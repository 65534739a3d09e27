"""``lingua-node check``, as an owner runs it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Start, echo
from lingua_node import machine
from scheduler import Scheduler, free_port, until
from test_tokens import Gated, gated

__all__ = ["gated"]

SCRIPT = """
from lingua_node import Languages, Node, in_thread

def handle(job): ...

languages = Languages(asr=["en"], semantic=["en"], nmt_pairs=[("en", "es")], tts=["es"])
if __name__ == "__main__":
    Node(in_thread(handle), languages, node_id="checked", slots=2).run()
"""


async def check(url: str, *arguments: str, **more: str) -> tuple[int, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LINGUA_")}
    asked = await asyncio.to_thread(
        lambda: subprocess.run(
            [sys.executable, "-m", "lingua_node", "check", *arguments],
            env={**clean, "LINGUA_URL": url, **more},
            capture_output=True,
            text=True,
            timeout=60,
        )
    )
    assert "Traceback" not in asked.stderr, asked.stderr
    return asked.returncode, asked.stdout + asked.stderr


def script(folder: Path, text: str = SCRIPT) -> str:
    file = folder / "my_node.py"
    file.write_text(text)
    return str(file)


async def test_a_node_that_would_be_taken_is_told_so_and_gets_no_job(scheduler: Scheduler, tmp_path: Path) -> None:
    code, said = await check(scheduler.url, script(tmp_path))
    assert code == 0, said
    assert f"scheduler  {scheduler.url} is ready" in said, said
    assert "languages  en->es" in said and "recognises en" in said and "slots      2" in said, said
    assert "node       taken: it registered as checked and left again" in said, said

    async def left() -> bool:
        view = await scheduler.node("checked")
        return view is None or view["connected"] is False

    await until(left, "it is gone again")


async def test_a_connected_node_is_looked_at_and_not_disturbed(
    scheduler: Scheduler, start: Start, tmp_path: Path
) -> None:
    node = await start(echo, node_id="checked")
    code, said = await check(scheduler.url, script(tmp_path))
    assert code == 0 and "checked is connected" in said and "nothing is in the way of jobs" in said, said
    assert node.stats.connected and node.stats.connections == 1


async def test_a_token_that_is_not_taken_is_one_line_and_an_exit_code(gated: Gated, tmp_path: Path) -> None:
    for token, code_of in (
        (gated.mint("node", "checked", key="wrong"), "UNAUTHORIZED"),
        (gated.mint("node", "another"), "FORBIDDEN"),
    ):
        code, said = await check(gated.url, script(tmp_path), LINGUA_NODE_TOKEN=token)
        assert code == 3 and f"token      refused: {code_of}" in said and token not in said, said
    good = tmp_path / "good.token"
    good.write_text(gated.mint("node", "checked"))
    code, said = await check(gated.url, script(tmp_path), "--token-file", str(good))
    assert code == 0 and "taken: it registered as checked" in said, said
    # Without a script the name is the token's.
    code, said = await check(gated.url, "--token-file", str(good))
    assert code == 0 and "languages  not known" in said, said


async def test_abilities_that_cannot_be_are_refused(scheduler: Scheduler, tmp_path: Path) -> None:
    code, said = await check(scheduler.url, script(tmp_path, SCRIPT.replace('semantic=["en"]', "semantic=[]")))
    assert code == 3 and "node       refused: INVALID_CAPABILITY" in said, said


async def test_no_scheduler_and_wrong_calls_have_codes_of_their_own(tmp_path: Path) -> None:
    code, said = await check(f"http://127.0.0.1:{free_port()}", script(tmp_path))
    assert code == 1 and "cannot be reached" in said, said
    for wrong in (["--url", "ftp://h"], ["--url", "ws://u:secret@h"], [str(tmp_path / "none.py")], ["--nonsense"]):
        code, said = await check("http://127.0.0.1:1", *wrong)
        assert code == 2 and "secret" not in said, said
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    code, said = await check("http://127.0.0.1:1", str(empty))
    assert code == 2 and "without Node(" in said, said


def fake_smi(folder: Path, body: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


def test_gpus_are_those_that_nvidia_smi_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.find_gpus() == ([], "nvidia-smi is not installed")
    fake_smi(tmp_path, "echo 'NVIDIA GeForce RTX 4060, 8188, 550.54'; echo 'Tesla, T4, 15360, 550.54'")
    gpus, _ = machine.find_gpus()
    assert [(gpu.name, gpu.memory_gb, gpu.driver) for gpu in gpus] == [
        ("NVIDIA GeForce RTX 4060", 8.0, "550.54"),
        ("Tesla, T4", 15.0, "550.54"),
    ]
    told = machine.hardware()
    assert told["gpus"][0] == {"name": "NVIDIA GeForce RTX 4060", "memory_gb": 8.0} and told["cpu_cores"] >= 1
    fake_smi(tmp_path, "echo 'No devices were found' >&2; exit 6")
    assert machine.find_gpus() == ([], "nvidia-smi: No devices were found")
