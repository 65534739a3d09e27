"""The jobs that run and the results that nobody has confirmed. Both outlive connections."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lingua_socket.pauses import Pace

from . import wire
from .activity import Activity
from .job import Busy, Job, JobFailed, MissingModel, Result
from .link import Link

MAX_KEPT = 1024
MAX_KEPT_BYTES = 64 << 20
"""Results that wait for their ack. Beyond that the oldest is given up."""

KEEP_AFTER_DEADLINE = 60.0
KEEP_WITHOUT_DEADLINE = 600.0
"""Seconds after which nobody wants a result any more."""

WORDS_A_SECOND = 500
"""Partials and progress of all jobs together. The scheduler shows a node the door at 2000 messages a second."""

MAX_SEEN = 4096
"""Attempts remembered to tell one that comes again."""

Key = tuple[str, int]
Handle = Callable[[Job], Awaitable[Result]]

log = logging.getLogger("lingua_node")


@dataclass
class Counters:
    """What became of all jobs."""

    done: int = 0
    failed: int = 0
    rejected: int = 0
    cancelled: int = 0
    resent: int = 0


@dataclass
class _Running:
    job: Job
    head: dict[str, Any]
    began: float
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    stopped: bool = False
    """The scheduler no longer counts it; only its slot here is still taken."""


@dataclass
class _Kept:
    message: str
    size: int
    until: float
    beat: int
    """Heartbeats sent before it was last sent."""


@dataclass
class Work:
    """All jobs of a node. Lives in the loop's thread; a job's own words may come from another."""

    handle: Handle
    slots: int
    counters: Counters = field(default_factory=Counters)
    refuses: bool = False
    """It ends what it has and takes nothing new."""
    clock_ahead_ms: int = 0
    """How far the scheduler's clock is ahead of this machine's."""

    def __post_init__(self) -> None:
        self._running: dict[Key, _Running] = {}
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._kept_bytes = 0
        self._seen: OrderedDict[Key, None] = OrderedDict()
        self._link: Link | None = None
        self._beats = 0
        self._pace = Pace(WORDS_A_SECOND)
        self.activity = Activity(time.monotonic())
        self.moved = asyncio.Event()
        """Set whenever a job or a kept result goes."""

    def listed(self) -> list[dict[str, Any]]:
        """What runs and counts."""
        return wire.named(key for key, running in self._running.items() if not running.stopped)

    @property
    def running(self) -> int:
        """Slots that are taken."""
        return len(self._running)

    @property
    def kept(self) -> int:
        """Results without an ack."""
        return len(self._kept)

    def attach(self, link: Link | None) -> None:
        """Talks over this connection from now on, and says again what nobody confirmed."""
        self._link = link
        if link is not None:
            self._resend(self._beats + 1)

    def beat(self) -> None:
        """A heartbeat was sent: results older than the last but one go again."""
        self._forget_old()
        self._resend(self._beats)
        self._beats += 1

    def _resend(self, before: int) -> None:
        for kept in self._kept.values():
            if kept.beat < before and self._say(kept.message):
                kept.beat = self._beats + 1
                self.counters.resent += 1

    def assign(self, message: Mapping[str, Any], audio: bytes, node_id: str) -> None:
        """Begins a job, or says why not."""
        head = wire.head_of(message, node_id)
        key: Key = (head["job_id"], head["attempt_id"])
        if key in self._seen:
            self._again(key, head)
            return
        try:
            job = wire.job_of(message, audio)
        except wire.Invalid as error:
            self._reject(head, f"INVALID_MESSAGE {error}")
            return
        if self.refuses or len(self._running) >= self.slots:
            self._reject(head, "BUSY")
            return
        self._seen[key] = None
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        self._begin(key, job, head)

    def _begin(self, key: Key, job: Job, head: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        running = _Running(job, head, time.monotonic())
        job._say = self._voice(running, loop)
        if job.deadline_ms is not None:
            left = (job.deadline_ms - wire.epoch_ms() - self.clock_ahead_ms) / 1000
            job._due = running.began + left
            running.timer = loop.call_later(max(left, 0), self._expire, key)
        self._running[key] = running
        self._say(wire.about("job_ack", head))
        line = self.activity.began(running.began, f"{job.src_lang} into {job.tgt_lang}")
        if line is not None:
            log.info("%s", line)
        running.task = loop.create_task(self._run(key, running), name=f"job {job.id}")

    def _again(self, key: Key, head: dict[str, Any]) -> None:
        """The same attempt came again: it is answered as before and not worked on twice."""
        running, kept = self._running.get(key), self._kept.get(key)
        if running is not None and not running.stopped:
            self._say(wire.about("job_ack", head))
        elif kept is not None:
            self._say(kept.message)

    def _voice(self, running: _Running, loop: asyncio.AbstractEventLoop) -> Callable[[str, Mapping[str, Any]], bool]:
        """What a job speaks with, in whichever thread it is."""
        here = threading.get_ident()

        def say(kind: str, fields: Mapping[str, Any]) -> bool:
            if running.stopped or not self._pace.take():
                return False
            message = wire.about(kind, running.head, fields)
            if threading.get_ident() == here:
                return self._say(message)
            try:
                loop.call_soon_threadsafe(self._say, message)
            except RuntimeError:  # The loop is closed.
                return False
            return True

        return say

    async def _run(self, key: Key, running: _Running) -> None:
        job = running.job
        try:
            message = self._ended(running, await self.handle(job))
        except asyncio.CancelledError:
            # Nobody but us cancels this task, so otherwise it was something that the worker waited for.
            said = "the worker was cancelled from within"
            message = None if running.stopped else self._failure(running, "PROCESSING_ERROR", said)
        except Exception as error:
            message = None if running.stopped else self._raised(running, error)
        finally:
            if running.timer is not None:
                running.timer.cancel()
            self._running.pop(key, None)
            self.moved.set()
        if message is not None:
            self._keep(key, running, message)

    def _ended(self, running: _Running, result: object) -> str | None:
        if running.stopped:
            return None
        job = running.job
        if not isinstance(result, Result):
            log.error("job %s: the worker returned %s and not a Result", job.id, type(result).__name__)
            return self._failure(running, "PROCESSING_ERROR", "the worker returned no result")
        try:
            message = wire.about("job_result", running.head, wire.result_fields(job, result, _took(running)))
        except wire.Invalid as error:
            log.error("job %s: the result cannot be sent: %s", job.id, error)
            return self._failure(running, "PROCESSING_ERROR", f"the result cannot be sent: {error}")
        self.counters.done += 1
        self.activity.ended(time.monotonic(), ok=True)
        return message

    def _raised(self, running: _Running, error: Exception) -> str | None:
        if isinstance(error, Busy):
            self._reject(running.head, "BUSY")
            return None
        if isinstance(error, MissingModel):
            details = {"model_id": error.model_id, "version": error.version}
            said = {name: value for name, value in details.items() if value is not None}
            self._reject(running.head, "MODEL_NOT_AVAILABLE", said)
            return None
        if isinstance(error, JobFailed):
            # Not its message: that is for the caller, and may hold what was said.
            log.warning("job %s failed: %s", running.job.id, error.code)
            try:
                return self._failure(running, error.code, error.message, error.details)
            except wire.Invalid:
                return self._failure(running, error.code, "the details cannot be sent")
        # The text of an error that nobody foresaw may hold anything: it stays on this machine.
        log.error("job %s: the worker raised", running.job.id, exc_info=error)
        return self._failure(running, "PROCESSING_ERROR", f"{type(error).__name__} in the worker")

    def _failure(self, running: _Running, code: str, message: str, details: Mapping[str, Any] | None = None) -> str:
        fields = wire.failure_fields(running.job, code, message, _took(running), details)
        text = wire.about("job_result", running.head, fields)
        self.counters.failed += 1
        self.activity.ended(time.monotonic(), ok=False)
        return text

    def _reject(self, head: dict[str, Any], reason: str, details: Mapping[str, Any] | None = None) -> None:
        self.counters.rejected += 1
        self._say(wire.about("job_reject", head, {"reason": reason, **({"details": details} if details else {})}))

    def cancel(self, job_id: str, attempt: int | None) -> None:
        """The scheduler wants no answer any more; ``None`` means every attempt."""
        for key, running in list(self._running.items()):
            if key[0] == job_id and attempt in (None, key[1]) and not running.stopped:
                self.counters.cancelled += 1
                self._stop(running)

    def _expire(self, key: Key) -> None:
        running = self._running.get(key)
        if running is None or running.stopped:
            return
        log.info("job %s: the deadline passed", running.job.id)
        message = self._failure(running, "JOB_TIMEOUT", "the deadline passed on the node")
        self._stop(running)
        self._keep(key, running, message)

    def _stop(self, running: _Running) -> None:
        running.stopped = running.job.is_cancelled = True
        if running.task is not None:
            running.task.cancel()

    async def stop_all(self, patience: float) -> None:
        """Cancels everything, and gives it a moment to end."""
        tasks = [running.task for running in self._running.values() if running.task is not None]
        for running in self._running.values():
            self._stop(running)
        if tasks:
            await asyncio.wait(tasks, timeout=patience)

    def _keep(self, key: Key, running: _Running, message: str) -> None:
        now, job = time.monotonic(), running.job
        until = now + KEEP_WITHOUT_DEADLINE if job._due is None else max(job._due, now) + KEEP_AFTER_DEADLINE
        kept = _Kept(message, len(message), until, self._beats)
        self._kept[key] = kept
        self._kept_bytes += kept.size
        while len(self._kept) > MAX_KEPT or self._kept_bytes > MAX_KEPT_BYTES:
            oldest = next(iter(self._kept))
            log.warning("job %s: its result is given up, too many wait for an ack", oldest[0])
            self._drop(oldest)
        self._say(message)

    def acked(self, job_id: str, attempt: int) -> None:
        """The scheduler has the result."""
        self._drop((job_id, attempt))

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._kept_bytes -= kept.size
            self.moved.set()

    def _forget_old(self) -> None:
        now = time.monotonic()
        for key in [key for key, kept in self._kept.items() if kept.until <= now]:
            log.warning("job %s: its result is given up, nobody confirmed it", key[0])
            self._drop(key)

    def _say(self, message: str) -> bool:
        return self._link is not None and self._link.say(message)


def _took(running: _Running) -> int:
    return round((time.monotonic() - running.began) * 1000)
