"""Nodes of a scheduler that asks for tokens."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from conftest import SPANISH, echo
from lingua_node import Node, Refused
from lingua_node.node import MAX_REFUSALS
from proxy import Proxy
from scheduler import Scheduler, binary, until


class Gated(Scheduler):
    """A scheduler with a key, and the key to make tokens with."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("right", "wrong"):
            lingua("token", "key", "--name", name, "--out", str(directory))
        config = directory / "lingua.toml"
        key = directory / "right.pub.pem"
        config.write_text(f'[identity]\nkey_files = ["{key}"]\nrecheck_ms = 100\nleeway_s = 0\n')
        super().__init__(directory / "scheduler.log", "--config", str(config))

    def mint(self, role: str, subject: str, *more: str, key: str = "right") -> str:
        private = str(self.directory / f"{key}.key.pem")
        return lingua("token", "mint", "--key", private, "--role", role, "--subject", subject, *more)


def lingua(*arguments: str) -> str:
    return subprocess.run([str(binary()), *arguments], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Gated]:
    scheduler = Gated(tmp_path)
    scheduler.start()
    yield scheduler
    scheduler.end()


@asynccontextmanager
async def serving(node: Node) -> AsyncIterator[asyncio.Task[bool]]:
    """The node, registered, and ended with the test."""
    task = asyncio.create_task(node.serve())
    try:
        await until(lambda: node.stats.connected or task.done(), "the node registers")
        yield task
    finally:
        node.stop()
        await asyncio.wait({task})


async def works(gated: Gated) -> None:
    gated.token = gated.mint("session", "app", "--tenant", "acme")
    _, answer = await gated.dispatch(options={"wait_ms": 20000})
    assert answer["job"]["state"] == "DONE", answer


async def refused(node: Node) -> Refused:
    with pytest.raises(Refused) as found:
        await asyncio.wait_for(node.serve(), 20)
    return found.value


async def test_a_node_with_its_token_is_let_in_and_works(gated: Gated) -> None:
    token = gated.mint("node", "gpu-1", "--max-slots", "2")
    async with serving(Node(echo, SPANISH, url=gated.url, node_id="gpu-1", token=token, slots=8)):
        await works(gated)
        gated.token = gated.mint("admin", "me")
        view = await gated.node("gpu-1")
        assert view["slots"]["declared"] == 2, "the token says how many slots it has at most"


async def test_a_wrong_token_is_refused_once_and_clearly(gated: Gated, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = {
        "of another key": (gated.mint("node", "gpu-1", key="wrong"), "UNAUTHORIZED"),
        "of another role": (gated.mint("session", "app", "--tenant", "acme"), "FORBIDDEN"),
        "of another node": (gated.mint("node", "gpu-2"), "FORBIDDEN"),
        "that is none": ("nonsense", "UNAUTHORIZED"),
        "not at all": (None, "UNAUTHORIZED"),
    }
    for what, (token, code) in tokens.items():
        async with Proxy(gated.port) as proxy:
            why = await refused(Node(echo, SPANISH, url=proxy.url, node_id="gpu-1", token=token))
            assert why.code == code, f"{what}: {why}"
            assert len(str(why)) > len(code) + 10, f"{what}: {why} says why"
            assert proxy.connections == 1, f"{what}: it does not try again"
            assert token is None or (token not in caplog.text and token not in str(why))


async def test_a_newer_token_is_shown_before_the_old_one_expires(gated: Gated) -> None:
    asked = 0

    def newest() -> str:
        nonlocal asked
        asked += 1
        return gated.mint("node", "gpu-1", "--life-s", "3")

    node = Node(echo, SPANISH, url=gated.url, node_id="gpu-1", token=newest, heartbeat_s=1)
    async with serving(node) as task:
        end = time.monotonic() + 6
        await until(lambda: time.monotonic() > end or task.done(), "twice the life of a token")
        assert node.stats.connected and node.stats.connections == 1, "the connection stays"
        assert asked > 3
        await works(gated)


async def test_the_file_of_a_token_is_read_again(
    gated: Gated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lingua_node")
    file = tmp_path / "node.token"
    file.write_text(gated.mint("node", "gpu-1", "--life-s", "4") + "\n")
    monkeypatch.setenv("LINGUA_NODE_TOKEN_FILE", str(file))
    node = Node(echo, SPANISH, url=gated.url, node_id="gpu-1", heartbeat_s=0.5)
    began = time.monotonic()
    async with serving(node) as task:
        # For a moment it is not there: that ends nothing.
        newer = gated.mint("node", "gpu-1")
        file.unlink()
        await until(lambda: "no newer token" in caplog.text, "it looks for the file")
        file.write_text(newer)
        await until(lambda: "took a newer token" in caplog.text, "it is shown")
        await until(lambda: time.monotonic() > began + 6 or task.done(), "the life of the first")
        assert node.stats.connected and node.stats.connections == 1
        await works(gated)


async def test_a_node_whose_token_expired_comes_back_with_a_newer_one_or_ends(gated: Gated) -> None:
    def short() -> str:
        return gated.mint("node", "gpu-1", "--life-s", "2")

    # It reports too rarely to show the newer one in time.
    node = Node(echo, SPANISH, url=gated.url, node_id="gpu-1", token=short, heartbeat_s=60)
    async with serving(node):
        await until(lambda: node.stats.connections == 2 and node.stats.connected, "it is back")
    why = await refused(Node(echo, SPANISH, url=gated.url, node_id="gpu-1", token=short(), heartbeat_s=60))
    assert why.code == "CLOSED_1008" and "expired" in str(why), why


async def test_newer_tokens_that_are_all_wrong_are_not_tried_for_ever(gated: Gated) -> None:
    async with Proxy(gated.port) as proxy:
        wrong = Node(
            echo, SPANISH, url=proxy.url, node_id="gpu-1", token=lambda: gated.mint("node", "gpu-1", key="wrong")
        )
        why = await refused(wrong)
        assert why.code == "UNAUTHORIZED"
        assert proxy.connections == MAX_REFUSALS


async def test_a_process_with_a_wrong_token_ends_and_says_why(gated: Gated, tmp_path: Path) -> None:
    script = tmp_path / "node.py"
    script.write_text(
        "from lingua_node import Languages, Node\n"
        "async def handle(job): ...\n"
        'Node(handle, Languages(asr=["en"], semantic=["en"], nmt_pairs=[("en", "es")], tts=["es"])).run()\n'
    )
    token = gated.mint("node", "gpu-1", key="wrong")
    environment = {**os.environ, "LINGUA_URL": gated.url, "LINGUA_NODE_TOKEN": token}
    run: Callable[[], subprocess.CompletedProcess[str]] = lambda: subprocess.run(  # noqa: E731
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=30
    )
    ended = await asyncio.to_thread(run)
    assert ended.returncode == 3 and token not in ended.stderr, ended.stderr
    last = ended.stderr.splitlines()[-1]
    assert "ERROR the scheduler refuses this node: UNAUTHORIZED: " in last, ended.stderr
    assert "Traceback" not in ended.stderr
