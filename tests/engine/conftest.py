"""The task that most tests of the engine work on, and its sources with a known fate."""

from __future__ import annotations

import pytest

from astra_tui.model.task import KernelTask
from tests.engine.scripted import Sources, sources_of


@pytest.fixture
def task(quick_task: KernelTask) -> KernelTask:
    return quick_task


@pytest.fixture
def sources(task: KernelTask) -> Sources:
    return sources_of(task)
