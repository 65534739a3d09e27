"""Other programs, kept running or run once. Nothing that people say is an argument: those are visible to all."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence

PATIENCE = 10.0
"""Seconds for one answer."""

MAX_ANSWER = 32 << 20
"""Bytes of one answer."""


class ProgramFailed(Exception):  # noqa: N818
    """A program did not answer, or not as it should."""


class Conversation:
    """A program that answers each question up to a mark, one after the other. It is started when first asked, and
    again when it went silent or away.
    """

    def __init__(self, command: Sequence[str], mark: bytes, *, greets: bool = False) -> None:
        self._command = list(command)
        self._mark = mark
        self._greets = greets
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self.starts = 0

    async def ask(self, question: bytes) -> bytes:
        """The answer without its mark."""
        async with self._turn:
            try:
                return await asyncio.wait_for(self._ask(question), PATIENCE)
            except (OSError, EOFError, asyncio.TimeoutError, TimeoutError, ValueError) as error:
                await self._end()
                raise ProgramFailed(f"{self._command[0]}: {type(error).__name__}") from error
            except BaseException:
                # Half an answer would be taken for the next one.
                await self._end()
                raise

    async def _ask(self, question: bytes) -> bytes:
        process = self._process
        if process is None or process.returncode is not None:
            process = await self._start()
        assert process.stdin is not None and process.stdout is not None  # noqa: S101 - asked for below
        process.stdin.write(question)
        await process.stdin.drain()
        answer = await process.stdout.readuntil(self._mark)
        return answer[: -len(self._mark)]

    async def _start(self) -> asyncio.subprocess.Process:
        await self._end()
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # A pipeline is many processes, which end together.
            limit=MAX_ANSWER,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        self._process = process
        self.starts += 1
        if self._greets:
            assert process.stdout is not None  # noqa: S101
            await process.stdout.readline()
        return process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()

    async def close(self) -> None:
        """Ends the program."""
        async with self._turn:
            await self._end()


async def run(command: Sequence[str], said: bytes) -> bytes:
    """What a program answers to one text. It ends with the caller."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        answer, _ = await asyncio.wait_for(process.communicate(said), PATIENCE)
    except (asyncio.TimeoutError, TimeoutError) as error:
        raise ProgramFailed(f"{command[0]}: no answer in {PATIENCE:.0f} s") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        raise ProgramFailed(f"{command[0]}: ended with {process.returncode}")
    return answer
