"""A TCP proxy that a test can break."""

from __future__ import annotations

import asyncio
import contextlib


class Proxy:
    """Stands between a node and its scheduler."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._born = 0
        self.port = 0
        self.connections = 0
        self.refuses = False
        """New connections are closed at once."""
        self._deaf_before = 0
        self._mute_before = 0

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def go_silent(self) -> None:
        """The connections of now stay open and carry nothing any more, as when a cable is pulled."""
        self._deaf_before = self._mute_before = self._born

    def swallow_answers(self) -> None:
        """The connections of now carry nothing to the node any more."""
        self._mute_before = self._born

    def cut(self) -> None:
        """Ends all connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        if self.refuses:
            writer.transport.abort()
            return
        number = self._born
        self._born += 1
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers |= {writer, up_writer}
        up = self._carry(reader, up_writer, lambda: number < self._deaf_before)
        down = self._carry(up_reader, writer, lambda: number < self._mute_before)
        await asyncio.wait({asyncio.ensure_future(up), asyncio.ensure_future(down)})
        self._writers -= {writer, up_writer}

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, swallows: object) -> None:
        assert callable(swallows)
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if not swallows():
                    writer.write(data)
                    await writer.drain()
        if not swallows():
            writer.transport.abort()
