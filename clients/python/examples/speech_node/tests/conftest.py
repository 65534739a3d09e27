"""Engines that several files of tests use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from described import differences, overheard
from scheduler import Scheduler
from speech_node.nmt import Apertium
from speech_node.repair import Rules


@pytest.fixture(autouse=True)
def as_described(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test says to a real scheduler and hears from it is as the scheduler describes it."""
    with overheard() as said:
        yield
    if "scheduler" in request.fixturenames:
        assert Scheduler.description is not None
        assert differences(Scheduler.description, said) == []


@pytest_asyncio.fixture
async def apertium() -> AsyncIterator[Apertium]:
    translator = Apertium()
    yield translator
    await translator.close()


@pytest_asyncio.fixture
async def rules() -> AsyncIterator[Rules]:
    repairer = Rules()
    yield repairer
    await repairer.close()
