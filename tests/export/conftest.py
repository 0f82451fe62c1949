"""Subjects of the three tasks with their production kernels, and a host compiler."""

from __future__ import annotations

import shutil

import pytest

from astra_tui.lab.compiler import Compiler
from astra_tui.model.task import KernelTask
from astra_tui.session.export import Subject
from tests.export.sessions import compiled_subject, made_up, production


@pytest.fixture(scope="session")
def subjects(compiler: Compiler, tasks: dict[str, KernelTask]) -> dict[str, Subject]:
    """Each task's production kernel as a winner, compiled."""
    return {
        name: compiled_subject(made_up(task, production(task)), task, compiler)
        for name, task in tasks.items()
    }


@pytest.fixture(scope="session")
def host_compiler() -> str:
    """A C++ compiler of the host."""
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        pytest.skip("no C++ compiler on this machine")
    return found
