"""The life of a node: connect, register, report, work, come back, drain."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lingua_socket import Lost, address
from lingua_socket.pauses import Pauses

from . import wire
from .activity import Losses
from .job import Job, Result
from .link import Link, Refused
from .work import Counters, Work

DEFAULT_URL = "ws://127.0.0.1:5010"
HEARTBEAT = 15.0
"""Seconds, if the scheduler does not say how often."""

SILENT_BEATS = 3
"""Heartbeats without any word from the scheduler, after which the connection is dead."""

TOKEN_REFUSALS = frozenset({"UNAUTHORIZED", "FORBIDDEN", "CLOSED_1008"})
"""How a scheduler says that it does not take a token, or not any more."""

MAX_REFUSALS = 5
"""Newer tokens that are refused one after the other, before the node believes it."""

EXIT_CUT_OFF = 1
"""The exit code of :meth:`Node.run` if jobs had to be cut off."""

EXIT_REFUSED = 3
"""The exit code of :meth:`Node.run` if the scheduler refuses the node: starting it again would not help."""

STOOD_STILL = 1.0
"""A timer that is so many seconds late says that the process itself stood still, and has not listened yet."""

log = logging.getLogger("lingua_node")


@dataclass(frozen=True)
class Stats:
    """What a node has done so far."""

    connected: bool
    connections: int
    running: int
    unconfirmed: int
    """Results that the scheduler has not confirmed."""
    done: int
    failed: int
    rejected: int
    cancelled: int
    resent: int


class Node:
    """A node that answers jobs with ``handle``.

    ``handle`` is an async function from :class:`Job` to :class:`Result`; :func:`lingua_node.in_thread` makes one
    of a function that blocks. It runs at most ``slots`` times at once and is cancelled when the job is, or when
    its deadline passes. What it raises ends its job: ``Busy`` and ``MissingModel`` send it to another node,
    ``JobFailed`` fails it with a code, anything else fails it with ``PROCESSING_ERROR``.

    - ``url``: the scheduler, ``ws://``, ``wss://``, ``http://`` or ``https://``; else ``LINGUA_URL``, else
      this machine.
    - ``node_id``: its name, the same at every start. Without one the scheduler makes one up for this process.
    - ``token``: its credential, or a function that returns the newest one; else ``LINGUA_NODE_TOKEN``, else what is
      in the file that ``LINGUA_NODE_TOKEN_FILE`` names. Sent as a header, never in the URL. A function and a file
      are asked with every heartbeat, and a newer token is shown before the old one expires.
    - ``drain_s``: how long the jobs that run may take after SIGTERM.
    - ``services``: what else it can do, such as ``{"tone": True}``.
    - ``takes_text``: it is also given texts in place of speech, in ``Job.text``.
    - ``region``, ``cost``: where it runs and what a job on it costs; schedulers may prefer nodes of their own
      region, or cheap ones.
    - ``usage``: returns ``cpu_percent``, ``gpu_percent`` or ``mem_percent``; the scheduler passes an overloaded
      node over. Nothing is reported without it.
    - ``on_control``: hears ``drain``, ``resume`` and ``update`` with a reason; the scheduler itself keeps jobs
      away from a node that an administrator drains.
    - ``heartbeat_s``, ``silence_s``: how often to report, and how long the scheduler may say nothing. Without
      them as often as it is told, and three times that.
    """

    def __init__(
        self,
        handle: Callable[[Job], Awaitable[Result]],
        languages: wire.Languages,
        *,
        url: str | None = None,
        node_id: str | None = None,
        slots: int = 4,
        token: str | Callable[[], str | None] | None = None,
        drain_s: float = 30.0,
        binary_audio: bool = True,
        takes_text: bool = False,
        accept_public_jobs: bool = True,
        version: str = "lingua-node/0.1.0",
        services: Mapping[str, bool] | None = None,
        hardware: Mapping[str, Any] | None = None,
        region: str | None = None,
        cost: float | None = None,
        usage: Callable[[], Mapping[str, float]] | None = None,
        on_control: Callable[[str, str | None], None] | None = None,
        heartbeat_s: float | None = None,
        silence_s: float | None = None,
    ) -> None:
        if not 1 <= slots <= 256:
            raise ValueError("slots: from 1 to 256")
        self._url = socket_url(url or os.environ.get("LINGUA_URL") or DEFAULT_URL)
        self._newest_token = token_source(token)
        self._shown: str | None = None
        self._refusals = 0
        self.node_id = node_id
        self._identity = wire.Identity(
            languages,
            slots,
            binary_audio,
            accept_public_jobs,
            version,
            dict(services or {}),
            hardware,
            region,
            cost,
            takes_text,
        )
        self._handle = handle
        self._drain_s = drain_s
        self._usage = usage
        self._on_control = on_control
        self._heartbeat_s = heartbeat_s
        self._silence_s = silence_s
        self._work: Work | None = None
        self._connections = 0
        self._connected = asyncio.Event()
        self._drain = asyncio.Event()
        self._stop = asyncio.Event()
        self._register_again = True
        self._beat_at_ms = 0
        self._losses = Losses()

    def run(self) -> None:
        """Serves until SIGTERM or SIGINT, then ends the jobs that run; the second signal ends them at once.

        Says on stderr what it does, unless the program has set up ``logging``. Leaves the process with code 1 if
        jobs had to be cut off, and with code 3 and one line if the scheduler refuses the node.
        """
        if instead_of_running is not None:
            instead_of_running(self)
        log_to_stderr()
        try:
            ended = asyncio.run(self.serve(signals=True))
        except Refused as refused:
            log.error("the scheduler refuses this node: %s", refused)
            sys.exit(EXIT_REFUSED)
        if not ended:
            sys.exit(EXIT_CUT_OFF)

    def _signalled(self) -> None:
        if self._drain.is_set():
            self.stop()
        else:
            self.drain()

    def drain(self) -> None:
        """Takes no new jobs, ends those that run, sees their results confirmed, and lets :meth:`serve` return."""
        if not self._drain.is_set():
            log.info("draining: no new jobs, those that run end")
            self._drain.set()

    def stop(self) -> None:
        """Ends at once; jobs that run are cancelled."""
        self._stop.set()

    async def connected(self) -> None:
        """Waits until the node is registered. Watch :meth:`serve` too: it may end before that."""
        await self._connected.wait()

    @property
    def stats(self) -> Stats:
        """What it has done so far."""
        work, counters = self._work, self._work.counters if self._work is not None else Counters()
        return Stats(
            connected=self._connected.is_set(),
            connections=self._connections,
            running=work.running if work is not None else 0,
            unconfirmed=work.kept if work is not None else 0,
            done=counters.done,
            failed=counters.failed,
            rejected=counters.rejected,
            cancelled=counters.cancelled,
            resent=counters.resent,
        )

    async def serve(self, *, signals: bool = False) -> bool:
        """Serves until :meth:`drain` or :meth:`stop`; tells whether every job that ran came to its end.

        With ``signals`` it listens to SIGTERM and SIGINT as :meth:`run` does, within a loop of the caller's.
        """
        if signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                # Not everywhere is there a way to hear of signals.
                with contextlib.suppress(NotImplementedError):
                    asyncio.get_running_loop().add_signal_handler(number, self._signalled)
        self._work = work = Work(self._handle, self._identity.slots)
        over = asyncio.create_task(self._over(work))
        pauses = Pauses()
        self._losses = Losses()
        try:
            while not over.done():
                began = time.monotonic()
                try:
                    await self._until(over, self._renewable(self._connection(work, over)))
                except Lost as lost:
                    if time.monotonic() - began > HEARTBEAT:
                        pauses.reset()
                    # What the scheduler says is the least; spread out, since it says so to many.
                    pause = max(pauses.next(), (lost.retry_after or 0.0) * random.uniform(1.0, 1.2))  # noqa: S311
                    said(self._losses.lost(time.monotonic(), str(lost), pause))
                    await self._until(over, asyncio.sleep(pause))
            return not work.running and not work.kept
        finally:
            over.cancel()
            self._connected.clear()
            work.attach(None)
            await work.stop_all(patience=1.0)

    async def _over(self, work: Work) -> None:
        """Ends when there is nothing left to do."""
        stop = asyncio.create_task(self._stop.wait())
        try:
            await self._until(stop, self._drain.wait())
            work.refuses = True
            give_up = asyncio.get_running_loop().call_later(self._drain_s, self._stop.set)
            while not stop.done() and (work.running or work.kept):
                work.moved.clear()
                await self._until(stop, work.moved.wait())
            give_up.cancel()
        finally:
            stop.cancel()

    @staticmethod
    async def _until(end: asyncio.Task[Any], doing: Any) -> None:
        """Waits for ``doing``, but not beyond ``end``."""
        task = asyncio.ensure_future(doing)
        try:
            await asyncio.wait({end, task}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.exception()  # Looked at: nobody waits for it any more.

    async def _renewable(self, connection: Awaitable[None]) -> None:
        """A refusal of a token that there is a newer one of is no refusal of the node."""
        try:
            await connection
        except Refused as refused:
            self._refusals += 1
            if refused.code in TOKEN_REFUSALS and self._refusals < MAX_REFUSALS and self._token() != self._shown:
                raise Lost(f"{refused.code}, and there is a newer token") from refused
            raise

    def _token(self) -> str | None:
        """The newest token."""
        try:
            return self._newest_token() or None
        except Exception as error:
            # Where it comes from may be away for a moment; the scheduler decides whether the last one still does.
            log.warning("no newer token (%s)", type(error).__name__)
            return self._shown

    async def _connection(self, work: Work, over: asyncio.Task[None]) -> None:
        """One connection from its opening to its end."""
        self._shown = self._token()
        link = await Link.open(self._url, self._shown)
        log.info("connected to %s", urlsplit(self._url).netloc)
        tasks: list[asyncio.Task[None]] = []
        try:
            answer = await link.register(self._registration(work))
            self.node_id = wire.text_of(answer, "node_id", self.node_id or "")
            told = answer.get("heartbeat_interval_ms")
            interval = self._heartbeat_s or (told / 1000 if isinstance(told, (int, float)) and told > 0 else HEARTBEAT)
            self._connections += 1
            self._refusals = 0
            said(self._losses.found(time.monotonic()))
            slots, served = self._identity.slots, self._identity.languages.describe()
            log.info("registered as %s: %d slots, %s", self.node_id, slots, served)
            if not work.running:
                log.info("waiting for jobs")
            tasks = [
                asyncio.create_task(link.write()),
                asyncio.create_task(self._listen(link, work)),
                asyncio.create_task(self._report(link, work, interval)),
                asyncio.create_task(self._watch(link, self._silence_s or interval * SILENT_BEATS)),
            ]
            work.attach(link)
            self._connected.set()
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except wire.Invalid as error:
            raise Lost(f"the answer to the registration: {error}") from error
        finally:
            self._connected.clear()
            work.attach(None)
            if over.done() and tasks and link.is_open:
                await link.flush()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if link.is_open:
                await link.close()

    def _registration(self, work: Work) -> str:
        return wire.register(self._identity, self.node_id, work.listed(), self._health())

    def _health(self) -> str:
        return "draining" if self._drain.is_set() else "ready"

    async def _report(self, link: Link, work: Work, interval: float) -> None:
        """Heartbeats, the first at once: its answer tells the scheduler's time."""
        drained = asyncio.create_task(self._drain.wait())
        try:
            while True:
                token = self._token()
                if token is not None and token != self._shown:
                    self._shown = token
                    link.say(wire.encode({"type": "auth", "token": token}))
                self._beat_at_ms = wire.epoch_ms()
                link.say(wire.heartbeat(self.node_id or "", work.listed(), self._health(), self._measured()))
                work.beat()
                said(work.activity.looked(time.monotonic(), work.running))
                self._register_again = True
                # Nodes that were started together do not report together for ever; a drain is told at once.
                pause = interval * random.uniform(0.9, 1.0)  # noqa: S311
                if drained.done():
                    await asyncio.sleep(pause)
                else:
                    await asyncio.wait({drained}, timeout=pause)
        finally:
            drained.cancel()

    def _measured(self) -> Mapping[str, float]:
        if self._usage is None:
            return {}
        try:
            usage = dict(self._usage())
            wire.encode(usage)
        except Exception:
            # That it cannot be measured is no reason to be taken for dead.
            log.exception("usage raised")
            return {}
        return usage

    async def _watch(self, link: Link, silence: float) -> None:
        """Ends a connection on which the scheduler says nothing any more."""
        while True:
            due = link.heard_at + silence
            await asyncio.sleep(max(due - time.monotonic(), 0.01))
            late = time.monotonic() - due
            if link.heard_at + silence > time.monotonic():
                continue
            if late > STOOD_STILL:
                link.heard_at = time.monotonic()
                continue
            link.abort()
            raise Lost(f"the scheduler said nothing for {silence:.1f} s")

    async def _listen(self, link: Link, work: Work) -> None:
        # The last assign, if its audio is the next frame.
        awaiting: dict[str, Any] | None = None
        while True:
            heard = await link.hear()
            try:
                if isinstance(heard, bytes):
                    job_id, audio = wire.audio_frame(heard)
                    if awaiting is not None and awaiting.get("job_id") == job_id:
                        work.assign(awaiting, audio, self.node_id or "")
                    awaiting = None
                    continue
                message = wire.decode(heard)
                if message["type"] != "job_assign":
                    self._told(message, link, work)
                    continue
                inline = wire.inline_audio(message)
                awaiting = message if inline is None else None
                if inline is not None:
                    work.assign(message, inline, self.node_id or "")
            except wire.Invalid as error:
                log.warning("a message of the scheduler cannot be understood: %s", error)

    def _told(self, message: dict[str, Any], link: Link, work: Work) -> None:
        kind = message["type"]
        if kind == "job_cancel":
            attempt = message.get("attempt_id")
            work.cancel(wire.text_of(message, "job_id"), attempt if isinstance(attempt, int) else None)
        elif kind == "result_ack":
            work.acked(wire.text_of(message, "job_id"), wire.whole_of(message, "attempt_id", 1))
        elif kind == "heartbeat_ack":
            # Its clock was read somewhere between the heartbeat and the answer.
            here = (self._beat_at_ms + wire.epoch_ms()) // 2
            work.clock_ahead_ms = wire.whole_of(message, "server_time_ms", here) - here
            if not self._drain.is_set():
                said(work.activity.told(wire.texts_of(message, "why_idle")))
        elif kind == "auth_ack":
            log.info("the scheduler took a newer token")
        elif kind == "node_control":
            self._controlled(wire.text_of(message, "command"), message.get("reason"))
        elif kind == "error":
            code = wire.text_of(message, "code", "")
            log.warning("the scheduler refused a message: %s", code)
            if code == "NOT_FOUND" and self._register_again:
                # Once for each heartbeat, so that the two do not go round in circles.
                self._register_again = False
                link.say(self._registration(work))

    def _controlled(self, command: str, reason: object) -> None:
        why = f": {reason}" if isinstance(reason, str) else ""
        log.info("the scheduler says: %s%s", command, why)
        if self._on_control is not None:
            try:
                self._on_control(command, reason if isinstance(reason, str) else None)
            except Exception:
                log.exception("on_control raised")


def said(line: str | None) -> None:
    """Says a line, if there is one."""
    if line is not None:
        log.info("%s", line)


def log_to_stderr() -> None:
    """One line for each thing that happens, unless the program itself has set up logging."""
    if log.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)


instead_of_running: Callable[[Node], None] | None = None
"""Set by ``lingua-node check``, which looks at the node of a script and does not run it."""


def token_source(token: str | Callable[[], str | None] | None) -> Callable[[], str | None]:
    """Where the newest token comes from."""
    if callable(token):
        return token
    token = token or os.environ.get("LINGUA_NODE_TOKEN")
    file = os.environ.get("LINGUA_NODE_TOKEN_FILE")
    if token or not file:
        return lambda: token
    return lambda: Path(file).read_text(encoding="utf-8").strip()


def socket_url(url: str) -> str:
    """The address of the node socket of a scheduler."""
    return address(url, "/ws/node", "`token` or LINGUA_NODE_TOKEN")
