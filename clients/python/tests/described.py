"""Holds what is said on the sockets of a real scheduler against its own description, ``/asyncapi.json``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jsonschema import Draft7Validator
from websockets.asyncio.client import ClientConnection

SOCKETS = {"/ws/node": ("node", "node"), "/ws/session": ("session", "client")}
ALIASES = {"register": "node_register", "heartbeat": "node_heartbeat"}

Said = tuple[str, str, str]
"""The path of the socket, who said it, and the text."""


@contextmanager
def overheard() -> Iterator[list[Said]]:
    """All texts that clients of this process say and hear meanwhile."""
    said: list[Said] = []
    send, recv = ClientConnection.send, ClientConnection.recv

    def note(connection: ClientConnection, sender: str | None, text: object) -> None:
        path = connection.request.path if connection.request is not None else ""
        if isinstance(text, str) and path in SOCKETS:
            said.append((path, sender or SOCKETS[path][1], text))

    async def sending(self: ClientConnection, message: Any, *rest: Any, **more: Any) -> None:
        note(self, None, message)
        await send(self, message, *rest, **more)

    async def receiving(self: ClientConnection, *rest: Any, **more: Any) -> Any:
        heard = await recv(self, *rest, **more)
        note(self, "scheduler", heard)
        return heard

    setattr(ClientConnection, "send", sending)  # noqa: B010 - mypy knows better than to assign methods
    setattr(ClientConnection, "recv", receiving)  # noqa: B010
    try:
        yield said
    finally:
        setattr(ClientConnection, "send", send)  # noqa: B010
        setattr(ClientConnection, "recv", recv)  # noqa: B010


def differences(description: dict[str, Any], said: list[Said]) -> list[str]:
    """What is not as described. The scheduler says no field that is not; others may."""
    found = []
    for path, sender, text in said:
        message = json.loads(text)
        kind = message.get("type")
        name = f"{SOCKETS[path][0]}.{sender}.{ALIASES.get(kind, kind)}"
        described = description["components"]["messages"].get(name)
        if described is None:
            found.append(f"{name}: there is no such message")
            continue
        schema = described["payload"]
        if sender == "scheduler":
            schema = {**schema, "additionalProperties": False}
        for error in Draft7Validator(schema).iter_errors(message):
            found.append(f"{name} {error.json_path}: {error.message[:200]}")
    return found
