"""A real scheduler for a test, on a port of its own."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def binary() -> Path:
    """The scheduler's binary."""
    named = os.environ.get("LINGUA_BIN")
    places = [Path(named)] if named else [ROOT / "target" / kind / "lingua" for kind in ("release", "debug")]
    for place in places:
        if place.is_file():
            return place
    tried = ", ".join(map(str, places))
    raise AssertionError(
        f"no lingua binary ({tried}): build it with `cargo build -p lingua-server`, or name one in LINGUA_BIN"
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Scheduler:
    """``lingua serve`` with its state in memory."""

    description: dict[str, Any] | None = None
    """What schedulers say of their sockets."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = log
        self._arguments = arguments
        self.token: str | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LINGUA_")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(binary()), "serve", "--listen", f"127.0.0.1:{self.port}", *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )
        end = time.monotonic() + 20
        while time.monotonic() < end:
            assert self._process.poll() is None, self._log.read_text()
            try:
                if self.call("GET", "/ready")[0] == 200:
                    Scheduler.description = Scheduler.description or self.call("GET", "/asyncapi.json")[1]
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError(f"the scheduler is not ready: {self._log.read_text()}")

    def end(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=70) as answer:  # noqa: S310
                return answer.status, _json(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, _json(error.read())

    async def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        return await asyncio.to_thread(self.call, method, path, body)

    async def dispatch(self, audio: bytes | None = b"\0\0" * 160, **fields: Any) -> tuple[int, Any]:
        """Hands in a job from English into Spanish; ``options`` are merged."""
        body = {
            "session_id": "room-1",
            "src_lang": "en",
            "tgt_lang": "es",
            "audio": None if audio is None else base64.b64encode(audio).decode(),
            "audio_format": "pcm16",
            **fields,
        }
        return await self.ask("POST", "/v1/dispatch/f2f", body)

    async def begin(self, **fields: Any) -> str:
        """Hands in a job and returns its id."""
        status, answer = await self.dispatch(**fields)
        assert status == 200, answer
        job_id: str = answer["job_id"]
        return job_id

    async def ended(self, job_id: str) -> Any:
        """The job once it is over."""
        for _ in range(3):
            status, view = await self.ask("GET", f"/v1/job/{job_id}?wait_ms=30000")
            assert status == 200, view
            if view["state"] in ("DONE", "FAILED", "CANCELLED"):
                return view
        raise AssertionError(f"the job does not end: {view['state']}")

    async def runs(self, job_id: str) -> None:
        """Waits until the scheduler knows that a node works on the job."""

        async def acked() -> bool:
            _, view = await self.ask("GET", f"/v1/job/{job_id}")
            return bool(view["state"] == "ACKED")

        await until(acked, "the job runs")

    async def node(self, node_id: str) -> Any:
        status, view = await self.ask("GET", f"/api/v1/nodes/{node_id}")
        return view if status == 200 else None


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


async def until(condition: Callable[[], Any], what: str, seconds: float = 30) -> None:
    """Waits for a condition, which may be a coroutine."""
    end = time.monotonic() + seconds
    while True:
        holds = condition()
        if asyncio.iscoroutine(holds):
            holds = await holds
        if holds:
            return
        assert time.monotonic() < end, f"not in time: {what}"
        await asyncio.sleep(0.02)
