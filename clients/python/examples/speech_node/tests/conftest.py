"""Engines that several files of tests use."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from speech_node.nmt import Apertium
from speech_node.repair import Rules


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
