"""How a session is opened, and what it means when that fails or a connection ends."""

from __future__ import annotations

from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from lingua_socket import Lost, address, retry_after, retry_after_close

from . import wire

FATAL = frozenset({"FORBIDDEN", "INVALID_MESSAGE", "INVALID_LANGUAGE", "UNSUPPORTED_MESSAGE", "MESSAGE_TOO_LARGE"})
"""The same words said again get the same answer."""

FINAL_CLOSES = frozenset({1002, 1007, 1008})
"""Close codes after which the protocol says not to come back."""


class SessionError(Exception):
    """The session is over and cannot go on."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


async def answer_to_init(socket: ClientConnection) -> dict[str, Any]:
    """The ``session_init_ack``; :class:`SessionError` or :class:`Lost` if there is none."""
    while True:
        heard = await socket.recv()
        try:
            message = wire.decode(heard if isinstance(heard, str) else "")
        except wire.Invalid:
            continue
        if message["type"] == "session_init_ack":
            return message
        if message["type"] == "error":
            code = wire.text_of(message, "code")
            if code in FATAL or code in ("UNAUTHORIZED", "INVALID_SESSION", "SESSION_CLOSED"):
                raise SessionError(code, wire.text_of(message, "message"))
            raise Lost(f"not opened: {code}", retry_after(message.get("retry_after_ms")))


def closed(error: ConnectionClosed) -> SessionError | Lost:
    """What the end of a connection means."""
    if error.rcvd is None:
        return Lost("the connection broke")
    code, reason = error.rcvd.code, error.rcvd.reason
    if code == 4001:
        return SessionError("SESSION_SUPERSEDED", "another connection took the session over")
    if code in FINAL_CLOSES:
        told = "UNAUTHORIZED" if "token" in reason else f"CLOSED_{code}"
        return SessionError(told, reason or "the scheduler closed the session")
    return Lost(f"closed with {code}", retry_after_close(reason))


def session_url(url: str) -> str:
    """The address of the session socket of a scheduler."""
    return address(url, "/ws/session", "`token`")
