"""The way for workers that block."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from .job import Job, Result

T = TypeVar("T")


def in_thread(handle: Callable[[Job], Result]) -> Callable[[Job], Awaitable[Result]]:
    """Makes an async worker of an ordinary function; each job runs in a thread of its own.

    A thread cannot be stopped. When its job is cancelled, ``job.is_cancelled`` turns true, and the node counts
    the slot as taken until the function returns. Threads are daemons: one that hangs does not keep the process
    from ending.
    """

    @functools.wraps(handle)
    async def worker(job: Job) -> Result:
        return await run_in_thread(functools.partial(handle, job))

    return worker


async def run_in_thread(work: Callable[[], T]) -> T:
    """Runs ``work`` in a thread. If the caller is cancelled, it hears of it only once the thread is through."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)  # type: ignore[arg-type]

    def body() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = work()
        except StopIteration as stopped:  # the one that a future does not take
            error = RuntimeError(f"the worker raised {stopped!r}")
        except BaseException as raised:
            error = raised
        # A loop that is closed has nobody who waits for it.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=body, name="lingua-node-worker", daemon=True).start()
    cancelled: asyncio.CancelledError | None = None
    while not outcome.done():
        try:
            await asyncio.wait({outcome})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        outcome.exception()  # Looked at, so that nobody complains that it was not.
        raise cancelled
    return outcome.result()
