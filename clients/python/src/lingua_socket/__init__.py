"""What the libraries for nodes and for apps share: how a socket to the scheduler is opened, and what its end means.

``pauses``: how long to wait before it is opened again.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus, InvalidURI

OPEN_TIMEOUT = 10.0
"""Seconds for the handshake, and again for the answer to the first message."""

CLOSE_TIMEOUT = 1.0
"""Seconds for the last messages and the close."""

LONGEST_PAUSE_MS = 600_000
"""A scheduler that asks for a longer pause is not believed."""


class Lost(Exception):  # noqa: N818
    """There is no connection, and another try may help."""

    def __init__(self, why: str, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


class NotAnAddress(ValueError):  # noqa: N818
    """The address is not one of a WebSocket."""


class Unwelcome(Exception):  # noqa: N818
    """The handshake was refused for who we are."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"the scheduler answered {status} to the handshake")
        self.status = status
        self.body = body


class Invalid(Exception):  # noqa: N818
    """A message that cannot be understood, or one that cannot be written."""


class Connect(connect):
    """Follows no redirect: the token is for this scheduler alone."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """No redirect is followed."""
        return exc


async def open_socket(
    url: str,
    *,
    max_size: int,
    logger: logging.Logger,
    headers: Mapping[str, str] | None = None,
    ping_interval: float | None = 20.0,
) -> ClientConnection:
    """A socket; :class:`Lost`, :class:`Unwelcome` or :class:`NotAnAddress` if there is none."""
    try:
        return await Connect(
            url,
            additional_headers=dict(headers or {}),
            open_timeout=OPEN_TIMEOUT,
            close_timeout=CLOSE_TIMEOUT,
            ping_interval=ping_interval,
            max_size=max_size,
            compression=None,  # Speech does not get smaller.
            logger=logger,
        )
    except InvalidStatus as error:
        status = error.response.status_code
        if status in (401, 403):
            raise Unwelcome(status, bytes(error.response.body or b"")) from None
        raise Lost(f"the scheduler answered {status} to the handshake") from None
    except InvalidURI as error:
        raise NotAnAddress("the scheduler's address is not a WebSocket URL") from error
    except (OSError, TimeoutError, asyncio.TimeoutError, InvalidHandshake, InvalidMessage, EOFError) as error:
        raise Lost(f"no connection ({type(error).__name__})") from error


def address(url: str, path: str, token_goes: str) -> str:
    """The address of the socket at ``path`` of a scheduler. ``token_goes``: where a token belongs, not the URL."""
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise ValueError("url: ws://host:port, wss://…, http://… or https://…")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(f"url: only host and path; the token goes into {token_goes}")
    own = parts.path.rstrip("/")
    return urlunsplit((scheme, parts.netloc, own if own.endswith(path) else f"{own}{path}", "", ""))


def decode(text: str) -> dict[str, Any]:
    """One message of the scheduler."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid("not JSON") from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise Invalid("not an object with a type")
    return message


def retry_after(milliseconds: object) -> float | None:
    """A ``retry_after_ms`` in seconds, if it is one."""
    if isinstance(milliseconds, (int, float)) and 0 <= milliseconds <= LONGEST_PAUSE_MS:
        return milliseconds / 1000
    return None


def retry_after_close(reason: str) -> float | None:
    """The pause that the reason of a close asks for."""
    try:
        told = json.loads(reason)
    except ValueError:
        return None
    return retry_after(told.get("retry_after_ms")) if isinstance(told, dict) else None
