"""One connection to the scheduler, from the handshake to the close."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from lingua_socket import (
    CLOSE_TIMEOUT,
    OPEN_TIMEOUT,
    Lost,
    NotAnAddress,
    Unwelcome,
    open_socket,
    retry_after,
    retry_after_close,
)

from . import wire

OUTBOX = 1024
OUTBOX_BYTES = 80 << 20
"""Messages that wait to be written, with room for all results that may be kept. A connection that is so far
behind loses what comes on top; results come again."""

RETRY_CODES = frozenset({"SCHEDULER_DEPENDENCY_DOWN", "DRAINING", "RATE_LIMITED", "INTERNAL_ERROR"})
"""Refusals of a registration that pass."""

FINAL_CLOSES = frozenset({1002, 1007, 1008, 4001})
"""Close codes after which the protocol says not to come back."""

log = logging.getLogger("lingua_node")

# The library below logs headers and frames when asked to be talkative: tokens and what people said.
_socket_log = logging.getLogger("lingua_node.socket")
_socket_log.setLevel(logging.WARNING)


class Refused(Exception):  # noqa: N818
    """The scheduler does not want this node as it is; coming back would not help."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Link:
    """An open connection. What is said goes into a bounded outbox and never blocks; :meth:`write` empties it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._outbox: deque[str] = deque()
        self._outbox_size = 0
        self._wake = asyncio.Event()
        self._written = asyncio.Event()
        self._written.set()
        self.is_open = True
        self.heard_at = time.monotonic()

    @classmethod
    async def open(cls, url: str, token: str | None) -> Link:
        """Connects; :class:`Refused` or :class:`Lost` if that does not work."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            socket = await open_socket(
                url,
                headers=headers,
                ping_interval=None,  # The scheduler pings, and heartbeats are answered.
                max_size=wire.MAX_INCOMING,
                logger=_socket_log,
            )
        except Unwelcome as error:
            raise _unwelcome(error) from None
        except NotAnAddress as error:
            raise Refused("INVALID_URL", str(error)) from error
        return cls(socket)

    async def register(self, message: str) -> dict[str, Any]:
        """Registers and returns the ``node_register_ack``."""
        try:
            await self._socket.send(message)
            return await asyncio.wait_for(self._registered(), OPEN_TIMEOUT)
        except ConnectionClosed as error:
            raise closed(error) from None
        except (TimeoutError, asyncio.TimeoutError):
            raise Lost("no answer to the registration") from None

    async def _registered(self) -> dict[str, Any]:
        while True:
            heard = await self.hear()
            if isinstance(heard, bytes):
                continue
            try:
                answer = wire.decode(heard)
            except wire.Invalid:
                continue
            if answer["type"] == "node_register_ack":
                return answer
            if answer["type"] == "error":
                raise refusal(answer)

    async def hear(self) -> str | bytes:
        """The next message; :class:`Refused` or :class:`Lost` when there will be none."""
        try:
            heard = await self._socket.recv()
        except ConnectionClosed as error:
            self.is_open = False
            raise closed(error) from None
        self.heard_at = time.monotonic()
        return heard

    def say(self, message: str) -> bool:
        """Puts a message in line; false if that cannot be."""
        if not self.is_open or len(self._outbox) >= OUTBOX or self._outbox_size + len(message) > OUTBOX_BYTES:
            return False
        self._outbox.append(message)
        self._outbox_size += len(message)
        self._written.clear()
        self._wake.set()
        return True

    async def write(self) -> None:
        """Writes what is in line until the connection ends."""
        try:
            while True:
                while self._outbox:
                    # Left in line until it is written, so that `flush` waits for it.
                    await self._socket.send(self._outbox[0])
                    self._outbox_size -= len(self._outbox.popleft())
                self._written.set()
                self._wake.clear()
                await self._wake.wait()
        except ConnectionClosed:
            self.is_open = False
            # Why it ended is read where messages are read.
            await asyncio.Event().wait()

    async def flush(self) -> None:
        """Waits until everything in line is written, for a moment."""
        try:
            await asyncio.wait_for(self._written.wait(), CLOSE_TIMEOUT)
        except (TimeoutError, asyncio.TimeoutError):
            log.debug("the last words could not be written")

    async def close(self) -> None:
        """Says goodbye."""
        self.is_open = False
        await self._socket.close()

    def abort(self) -> None:
        """Ends it at once, without a word to a peer that does not listen."""
        self.is_open = False
        self._socket.transport.abort()


def _unwelcome(error: Unwelcome) -> Refused:
    """A handshake that was refused, in the scheduler's words if it has any."""
    code = "UNAUTHORIZED" if error.status == 401 else "FORBIDDEN"
    try:
        told = json.loads(error.body)
    except ValueError:
        told = None
    detail = told.get("detail") if isinstance(told, dict) else None
    return Refused(code, str(detail)[:512] if detail else str(error))


def refusal(answer: dict[str, Any]) -> Refused | Lost:
    """What an ``error`` in answer to a registration means."""
    code = str(answer.get("code", ""))
    message = str(answer.get("message", ""))[:512]
    pause = answer.get("retry_after_ms")
    if isinstance(pause, (int, float)) or code in RETRY_CODES:
        return Lost(f"not registered: {code}", retry_after(pause))
    return Refused(code, message)


def closed(error: ConnectionClosed) -> Refused | Lost:
    """What the end of a connection means."""
    if error.rcvd is None:
        return Lost("the connection broke")
    code, reason = error.rcvd.code, error.rcvd.reason
    if code in FINAL_CLOSES:
        return Refused("SUPERSEDED" if code == 4001 else f"CLOSED_{code}", reason or "the scheduler closed the socket")
    return Lost(f"closed with {code}", retry_after_close(reason))
