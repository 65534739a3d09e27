"""A speaker: as much of a client as the tests need."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

CHUNK_MS = 100


class Session:
    """One conversation over ``/ws/session``."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._seq = 0
        self.partials: list[dict[str, Any]] = []

    async def say(self, message: dict[str, Any]) -> None:
        await self._socket.send(json.dumps(message))

    async def hear(self, *kinds: str, seconds: float = 60) -> dict[str, Any]:
        """The next message of one of these kinds; partials are kept on the way."""
        while True:
            message: dict[str, Any] = json.loads(await asyncio.wait_for(self._socket.recv(), seconds))
            if message["type"] == "asr_partial":
                self.partials.append(message)
            if message["type"] in kinds:
                return message
            assert message["type"] != "error", message

    async def speak(self, audio: bytes, chunk: int = 3200) -> None:
        """Sends speech in pieces and ends the utterance; any bytes that the session's codec allows."""
        pieces = [audio[at : at + chunk] for at in range(0, len(audio), chunk)]
        for piece in pieces:
            await self._chunk(piece, is_final=False)
        await self._chunk(b"", is_final=True)

    async def _chunk(self, piece: bytes, *, is_final: bool) -> None:
        payload = base64.b64encode(piece).decode()
        await self.say({"type": "audio_chunk", "seq": self._seq, "is_final": is_final, "payload": payload})
        self._seq += 1

    async def ending(self) -> dict[str, Any]:
        return await self.hear("translation_result", "missing_result")


@asynccontextmanager
async def session(url: str, src: str, tgt: str, **more: Any) -> AsyncIterator[Session]:
    async with connect(url.replace("http", "ws", 1) + "/ws/session", max_size=16 << 20) as socket:
        opened = Session(socket)
        init = {"type": "session_init", "client_version": "0", "platform": "test", "src_lang": src, "tgt_lang": tgt}
        await opened.say({**init, "codec": "pcm16", "supports": [], **more})
        await opened.hear("session_init_ack")
        yield opened
        await opened.say({"type": "session_close"})
        await opened.hear("session_close_ack")
