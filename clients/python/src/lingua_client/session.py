"""A session: one conversation into one or several languages, that outlives its connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from lingua_socket import OPEN_TIMEOUT, Lost, NotAnAddress, Unwelcome, open_socket
from lingua_socket.pauses import Pauses

from . import audio as speech
from . import wire
from .opening import SessionError, answer_to_init, closed, session_url
from .outbox import Outbox

DEFAULT_URL = "http://127.0.0.1:5010"
CLOSE_WAIT = 60.0
"""Seconds that the endings of what was said may take when the session is closed."""

GOOD = 3.0
"""Seconds that a connection has to live for the next pause to be a short one."""

MAX_INCOMING = 16 << 20
MAX_UNREAD = 1024
"""Endings that wait for the program. Behind them the connection is not read."""

MAX_OPEN_TURNS = 16
"""Turns without an ending. The scheduler takes 32 open utterances."""

TOKEN_TRIES = 5
"""Newer tokens that are refused one after the other, before the session believes it."""

GHOST = 30.0
"""Seconds in which the scheduler may still come upon an attempt that was given up, as if it were a newer one."""

Token = str | Callable[[], "str | Awaitable[str]"] | None

log = logging.getLogger("lingua_client")
_socket_log = logging.getLogger("lingua_client.socket")
# The library below logs frames when asked to be talkative: tokens and what people said.
_socket_log.setLevel(logging.WARNING)


class Session:
    """Speech in ``src``, translations in ``tgt``: one language, or a list of up to 8.

    ``async with Session("en", "es") as session`` opens and closes it. What is said is kept until its ending is heard;
    after a loss it goes on with the same session, on any instance behind ``url``, and every ending is told once and
    in order. If the scheduler knows the session no more, what has no ending is said again in a new one. With several
    targets every utterance has an ending for each of them, named by its ``tgt_lang``; each target has its own order.

    - ``url``: the scheduler, ``http://``, ``https://``, ``ws://`` or ``wss://``; else ``LINGUA_URL``, else this
      machine.
    - ``token``: or a function, also an async one, that is asked before each connection.
    - ``on_partial``: hears words on the way, as ``(turn, text)``. Without it none are asked for.
    - ``keep_bytes``: speech kept in memory; :meth:`say` waits for room.
    - ``options``: further fields of ``session_init``, such as ``pause_ms`` or ``dialect``.
    """

    def __init__(
        self,
        src: str,
        tgt: str | Sequence[str],
        *,
        url: str | None = None,
        token: Token = None,
        on_partial: Callable[[int, str], None] | None = None,
        keep_bytes: int = 4 << 20,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if keep_bytes < speech.PIECE_BYTES:
            raise ValueError(f"keep_bytes: at least {speech.PIECE_BYTES}")
        targets = (tgt,) if isinstance(tgt, str) else tuple(tgt)
        if not targets:
            raise ValueError("tgt: at least one language")
        self._src, self._tgt = src, targets[0]
        self._targets = targets if len(targets) > 1 else ()
        self._url = session_url(url or os.environ.get("LINGUA_URL") or DEFAULT_URL)
        self._token = token
        self._on_partial = on_partial
        self._keep_bytes = keep_bytes
        self._options = {"enable_streaming_asr": on_partial is not None, **(options or {})}
        self.session_id: str | None = None
        self.connections = 0
        """Connections so far."""
        self._resume_token: str | None = None
        self._last: dict[str, int] = {}
        """The last ending heard of each target, as the scheduler spells it; with one target under an empty name."""
        self._turn_of_index: dict[int, int] = {}
        self._outbox = Outbox()
        self._turn = 0
        self._in_turn = False
        self._open_turns: set[int] = set()
        self._why: dict[int, tuple[str | None, str | None]] = {}
        self._endings: deque[tuple[wire.Ending | None, int | None]] = deque()
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        self._opened = asyncio.Event()
        self._held_until = 0.0
        self._ghost_at = -GHOST
        self._closing = False
        self._error: SessionError | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Session:
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        await self.close(wait_s=CLOSE_WAIT if kind is None else 0.0)

    async def open(self) -> None:
        """Opens the session; :class:`SessionError` if the scheduler refuses it. Waits for a scheduler that is away."""
        if self._task is None:
            self._task = asyncio.create_task(self._live(), name="lingua session")
        await self._wait(self._opened)
        if self._error is not None:
            raise self._error

    async def speak(self, source: speech.Source, *, rate: int = speech.RATE) -> int:
        """Says one turn and ends it: a WAV file, samples at ``rate``, or a live source of samples. Returns its number.

        Long speech is cut by the scheduler and has several endings.
        """
        if isinstance(source, (str, PathLike)):
            data = await asyncio.to_thread(speech.read_wav, source)
        elif isinstance(source, AsyncIterable):
            async for samples in source:
                await self.say(speech.pcm16(samples, rate))
            return self.end()
        else:
            data = speech.pcm16(source, rate)
        await self.say(data)
        return self.end()

    async def say(self, data: bytes) -> None:
        """Says a part of a turn, as pcm16 at 16,000 samples a second. Waits while too much has no ending yet."""
        for piece in speech.pieces(data):
            if not self._in_turn:
                while len(self._open_turns) >= MAX_OPEN_TURNS:
                    await self._room()
                self._in_turn = True
                self._open_turns.add(self._turn)
            while self._outbox.bytes + len(piece) > self._keep_bytes:
                await self._room()
            self._check()
            self._outbox.push(piece, is_final=False, turn=self._turn)
            self._wake.set()

    def end(self) -> int:
        """Ends the turn and returns its number. :class:`ValueError` if nothing was said."""
        if not self._in_turn:
            raise ValueError("nothing was said")
        turn = self._turn
        self._turn += 1
        self._in_turn = False
        self._outbox.push(b"", is_final=True, turn=turn)
        self._wake.set()
        if not self._outbox.has_speech(turn):
            # A pause ended its last utterance, and that one has its ending.
            self._over(turn)
            self._put(None, turn)
        return turn

    async def endings(self) -> AsyncIterator[wire.Ending]:
        """Every ending, once and in order, until the session is closed. :class:`SessionError` if it cannot go on."""
        while (told := await self._next()) is not None:
            if told[0] is not None:
                yield told[0]

    async def translate(self, source: speech.Source, *, rate: int = speech.RATE) -> list[wire.Ending]:
        """Says one turn and returns its endings. Not beside :meth:`endings`: each ending is told once."""
        turn = await self.speak(source, rate=rate)
        found: list[wire.Ending] = []
        while (told := await self._next()) is not None:
            ending, over = told
            if ending is not None and ending.turn == turn:
                found.append(ending)
            if over == turn:
                break
        return found

    async def close(self, *, wait_s: float = CLOSE_WAIT) -> None:
        """Ends the session. What was said gets its endings first, if they come within ``wait_s`` seconds."""
        if self._task is None:
            return
        if self._in_turn:
            self.end()
        until = time.monotonic() + wait_s
        while self._open_turns and not self._task.done() and (left := until - time.monotonic()) > 0:
            self._moved.clear()
            await self._wait(self._moved, left)
        self._closing = True
        self._wake.set()
        await asyncio.wait({self._task}, timeout=OPEN_TIMEOUT if self._opened.is_set() else 0)
        self._task.cancel()
        await asyncio.wait({self._task})

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closing:
            raise SessionError("SESSION_CLOSED", "the session was closed")

    async def _room(self) -> None:
        self._check()
        self._moved.clear()
        await self._wait(self._moved)
        self._check()

    async def _wait(self, event: asyncio.Event, seconds: float | None = None) -> None:
        """Waits for an event, and not beyond the session."""
        if self._task is None:
            raise SessionError("SESSION_CLOSED", "the session is not open")
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({waiting, self._task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    async def _next(self) -> tuple[wire.Ending | None, int | None] | None:
        """The next ending and the turn that is over with it; ``None`` behind the last one of a closed session."""
        while not self._endings:
            if self._task is not None and self._task.done():
                if self._error is not None:
                    raise self._error
                return None
            self._arrived.clear()
            await self._wait(self._arrived)
        self._taken.set()
        return self._endings.popleft()

    def _put(self, ending: wire.Ending | None, over: int | None) -> None:
        self._endings.append((ending, over))
        self._arrived.set()

    async def _live(self) -> None:
        """Connections one after the other, until the session is over."""
        pauses = Pauses()
        refused_tokens = 0
        while True:
            began = time.monotonic()
            try:
                await self._connection()
                return
            except Lost as lost:
                if time.monotonic() - began > GOOD:
                    pauses.reset()
                    refused_tokens = 0
                pause = max(pauses.next(), (lost.retry_after or 0.0) * random.uniform(1.0, 1.2))  # noqa: S311
                log.info("no scheduler: %s; trying again in %.1f s", lost, pause)
            except SessionError as error:
                refused_tokens += 1
                if error.code != "UNAUTHORIZED" or not callable(self._token) or refused_tokens >= TOKEN_TRIES:
                    self._error = error
                    return
                pause = pauses.next()
            except Exception as error:
                log.exception("the session ends")
                self._error = SessionError("CLIENT_ERROR", type(error).__name__)
                return
            if self._closing:
                return
            await asyncio.sleep(pause)

    async def _connection(self) -> None:
        """One connection; returns when the session was closed."""
        try:
            token = self._token() if callable(self._token) else self._token
            shown = await token if isinstance(token, Awaitable) else token
        except Exception as error:
            # Where it comes from may be away for a moment.
            raise Lost(f"no token ({type(error).__name__})") from error
        try:
            socket = await open_socket(self._url, max_size=MAX_INCOMING, logger=_socket_log)
        except NotAnAddress as error:
            raise SessionError("INVALID_URL", str(error)) from error
        except Unwelcome as error:
            # The token goes into the first message: who answers the handshake so is not the scheduler, but before it.
            raise Lost(str(error)) from error
        try:
            await self._greet(socket, shown)
            sending = asyncio.create_task(self._send(socket))
            try:
                await self._listen(socket)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        except ConnectionClosed as error:
            self._lost(error)
        finally:
            await socket.close()

    async def _greet(self, socket: ClientConnection, token: str | None) -> None:
        init = wire.session_init(
            self._src,
            self._tgt,
            token=token,
            resume_token=self._resume_token,
            last_index=None if self._targets else self._last.get(""),
            options=self._options,
            targets=self._targets,
            last_indexes=self._last if self._targets else None,
        )
        await socket.send(json.dumps(init))
        try:
            ack = await asyncio.wait_for(answer_to_init(socket), OPEN_TIMEOUT)
        except ConnectionClosed:
            self._ghost_at = time.monotonic()
            raise
        except (TimeoutError, asyncio.TimeoutError):
            self._ghost_at = time.monotonic()
            raise Lost("no answer to session_init") from None
        except SessionError as error:
            if error.code in ("INVALID_SESSION", "SESSION_CLOSED"):
                # There is nothing to go on with: a new session it is.
                self._resume_token = None
                raise Lost(str(error)) from error
            raise
        session_id = wire.text_of(ack, "session_id")
        if self.session_id not in (None, session_id):
            self._last.clear()
            self._turn_of_index.clear()
            self._why.clear()
            again = self._outbox.restart()
        else:
            again = self._outbox.resume()
        if self.connections:
            log.info("found the scheduler; %d pieces of speech go again", again)
        self.session_id = session_id
        self._resume_token = wire.text_of(ack, "resume_token") or None
        self.connections += 1
        self._held_until = 0.0
        self._opened.set()
        self._wake.set()

    async def _send(self, socket: ClientConnection) -> None:
        """Sends what there is until the connection ends. Why it ended is read where messages are read."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                held = self._held_until - time.monotonic()
                if held > 0:
                    await asyncio.sleep(held)
                    continue
                piece = self._outbox.next()
                if piece is not None:
                    await socket.send(wire.audio_frame(piece.seq, piece.audio, is_final=piece.is_final))
                    continue
                if self._closing:
                    await socket.send(json.dumps({"type": "session_close"}))
                    return
                self._wake.clear()
                await self._wake.wait()

    async def _listen(self, socket: ClientConnection) -> None:
        while True:
            heard = await socket.recv()
            if isinstance(heard, bytes):
                continue
            try:
                message = wire.decode(heard)
                if message["type"] == "session_close_ack":
                    return
                await self._heard(message)
            except wire.Invalid as error:
                log.warning("a message of the scheduler cannot be understood: %s", error)

    async def _heard(self, message: Mapping[str, Any]) -> None:
        kind, index = message["type"], wire.number_of(message, "utterance_index")
        if kind == "audio_ack":
            self._outbox.ack(wire.number_of(message, "seq") or 0)
        elif kind == "backpressure":
            self._held_until = time.monotonic() + (wire.number_of(message, "resume_after_ms") or 1000) / 1000
        elif kind == "go_away":
            raise Lost("the instance stops", random.uniform(0.0, 0.3))  # noqa: S311
        elif kind == "error":
            await self._refused(message)
        elif index is None or index <= self._last_of(message):
            # After a resume some are told again.
            return
        elif kind in ("translation_result", "missing_result"):
            await self._ended(message, index)
        elif kind == "ui_event" and message.get("error_code") is not None:
            self._why[index] = (wire.text_of(message, "error_code"), wire.text_of(message, "hint") or None)
        elif kind == "asr_partial" and self._on_partial is not None:
            try:
                self._on_partial(min(self._open_turns, default=self._turn), wire.text_of(message, "text"))
            except Exception:
                log.exception("on_partial raised")

    def _last_of(self, message: Mapping[str, Any]) -> int:
        """The last utterance whose ending was heard, in the target that a message is about; of all if it names none."""
        if not self._targets:
            return self._last.get("", -1)
        target = wire.text_of(message, "tgt_lang")
        if not target:
            heard = self._last.values()
            return min(heard) if len(heard) == len(self._targets) else -1
        return self._last.get(target, -1)

    def _turn_for(self, message: Mapping[str, Any], index: int, seq: int | None) -> int:
        """The turn that an utterance is a part of."""
        oldest = min(self._open_turns, default=self._turn)
        if not self._targets:
            turn = self._outbox.turn_of(seq) if seq is not None else None
            return oldest if turn is None else turn
        turn = self._turn_of_index.get(index)
        if turn is None:
            # A part goes on with the turn of the utterance before, anything else begins the next one.
            before = self._turn_of_index.get(index - 1)
            next_turn = oldest if before is None else before + (not wire.number_of(message, "part_index"))
            turn = self._turn_of_index[index] = max(oldest, min(next_turn, self._turn))
        return turn

    async def _ended(self, message: Mapping[str, Any], index: int) -> None:
        seq = wire.number_of(message, "audio_ack")
        turn = self._turn_for(message, index, seq)
        target = wire.text_of(message, "tgt_lang")
        code, hint = self._why.get(index, (None, None)) if self._targets else self._why.pop(index, (None, None))
        if message["type"] == "missing_result":
            ending: wire.Ending = wire.Missing(index, turn, wire.text_of(message, "reason"), code, hint, target)
        else:
            ending = wire.translation_of(message, index, turn)
        if not self._targets:
            self._last[""] = index
        elif target:
            self._last[target] = index
        else:
            self._last.update({name: max(index, last) for name, last in self._last.items()})
        if self._targets and seq is not None:
            complete = min(self._last.values(), default=index)
            self._turn_of_index = {at: of for at, of in self._turn_of_index.items() if at >= complete}
            self._why = {at: why for at, why in self._why.items() if at > complete}
        await self._tell(ending, seq)

    async def _refused(self, message: Mapping[str, Any]) -> None:
        """A message was refused, or speech dropped: then that has no other ending."""
        code, details = wire.text_of(message, "code"), message.get("details")
        log.warning("the scheduler refused something: %s", code)
        last = wire.number_of(details, "last_seq") if isinstance(details, dict) else None
        # A stopping instance lets go of what it has not acknowledged: that is said again elsewhere.
        if last is None or code == "DRAINING":
            return
        turn = self._outbox.turn_of(last)
        if turn is not None:
            await self._tell(wire.Missing(-1, turn, "dropped", code, wire.text_of(message, "message")), last)

    async def _tell(self, ending: wire.Ending, seq: int | None) -> None:
        if seq is not None:
            self._outbox.ended(seq)
        over = [turn for turn in sorted(self._open_turns) if self._is_over(turn)]
        while len(self._endings) >= MAX_UNREAD:
            self._taken.clear()
            await self._taken.wait()
        self._put(ending, over[0] if over else None)
        for turn in over[1:]:
            self._put(None, turn)
        for turn in over:
            self._over(turn)
        self._moved.set()

    def _is_over(self, turn: int) -> bool:
        """It was ended, and all of its speech has its endings."""
        return (turn != self._turn or not self._in_turn) and not self._outbox.has_speech(turn)

    def _over(self, turn: int) -> None:
        self._open_turns.discard(turn)
        self._moved.set()

    def _lost(self, error: ConnectionClosed) -> None:
        """What the end of a connection means."""
        if self._closing:
            return
        is_ghost = time.monotonic() - self._ghost_at < GHOST
        ended = closed(error)
        if isinstance(ended, SessionError) and ended.code == "SESSION_SUPERSEDED" and is_ghost:
            self._ghost_at = -GHOST
            raise Lost("an attempt of our own took the session over")
        raise ended
