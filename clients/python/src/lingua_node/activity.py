"""What a node says of its work: one line when it begins, one a minute, and one when there is nothing to do."""

from __future__ import annotations

EVERY = 60.0
"""Seconds between two lines about the same kind of thing."""


class Activity:
    """Decides which lines are worth saying. Values in, lines out; it reads no clock."""

    def __init__(self, now: float) -> None:
        self._working = False
        self._said_at = now
        self._last_job_at = now
        self._done = self._failed = 0
        self._said_done = self._said_failed = 0
        self._why: tuple[str, ...] = ()

    def began(self, now: float, pair: str) -> str | None:
        """A job begins."""
        self._last_job_at = now
        if self._working:
            return None
        self._working = True
        self._said_at = now
        return f"working: a job from {pair}"

    def ended(self, now: float, *, ok: bool) -> None:
        """A job ended."""
        self._last_job_at = now
        if ok:
            self._done += 1
        else:
            self._failed += 1

    def looked(self, now: float, running: int) -> str | None:
        """Now and then: how it goes."""
        if not self._working or now - self._said_at < EVERY:
            return None
        if running == 0 and now - self._last_job_at >= EVERY:
            self._working = False
            self._note(now)
            return f"waiting for jobs: {self._done} done and {self._failed} failed so far"
        done, failed = self._done - self._said_done, self._failed - self._said_failed
        since = now - self._said_at
        self._note(now)
        return f"working: {done} jobs done and {failed} failed in the last {since:.0f} s, {running} running"

    def told(self, why_idle: list[str]) -> str | None:
        """The scheduler says why it sends no jobs, or that nothing is in the way. Said when it changes."""
        why = tuple(why_idle)
        if why == self._why:
            return None
        self._why = why
        return f"waiting for jobs; the scheduler says: {'; '.join(why)}" if why else "nothing is in the way of jobs"

    def _note(self, now: float) -> None:
        self._said_at = now
        self._said_done, self._said_failed = self._done, self._failed


class Losses:
    """Decides which lines about a lost scheduler are worth saying."""

    def __init__(self) -> None:
        self._lost_at: float | None = None
        self._said_at = 0.0

    def lost(self, now: float, why: str, pause: float) -> str | None:
        """There is no connection, and the next try is in ``pause`` seconds."""
        if self._lost_at is None:
            self._lost_at = self._said_at = now
            return f"no scheduler: {why}; trying again in {pause:.1f} s"
        if now - self._said_at < EVERY:
            return None
        self._said_at = now
        return f"still no scheduler after {now - self._lost_at:.0f} s: {why}; trying again"

    def found(self, now: float) -> str | None:
        """It is registered."""
        lost_at, self._lost_at = self._lost_at, None
        return None if lost_at is None else f"found the scheduler after {now - lost_at:.1f} s"
